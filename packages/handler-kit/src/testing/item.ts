import type { HandlerContext } from '../context.js';
import type { InferenceRequest } from '../request.js';
import type { RecordedControls } from '../response-controls.js';

/** One request on its way. */
export interface Item {
  readonly request: InferenceRequest;
  readonly ctx: HandlerContext<unknown>;
  readonly response: RecordedControls;
  features?: unknown;
  outputs?: unknown;
  result?: unknown;
  error?: Error;
  /** What its steps have streamed. */
  chunks?: unknown[];
}
