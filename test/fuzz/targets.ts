import type { Target } from './target.js';
import { archiveTargets } from './targets/archives.js';
import { bodyTargets } from './targets/bodies.js';
import { decoderTargets } from './targets/decoders.js';
import { grpcFrames } from './targets/grpc-frames.js';
import { grpcMessages } from './targets/grpc-messages.js';
import { httpTargets } from './targets/http.js';

export const targets: readonly Target[] = [
  ...httpTargets,
  ...bodyTargets,
  grpcFrames,
  grpcMessages,
  ...archiveTargets,
  ...decoderTargets,
];
