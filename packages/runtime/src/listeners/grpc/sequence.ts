import type { SequenceMark } from '../../domain/request.js';
import { isMarked, type SequenceKeys } from '../../domain/sequence-keys.js';
import type { PredictionsRequest } from '../../protocol/torchserve/grpc-messages.js';
import type { GrpcCall } from './call.js';
import { firstText } from './metadata.js';

export interface Sequence {
  readonly mark: SequenceMark | undefined;
  /** What a handler reads among its headers, as over REST. */
  readonly headers: readonly string[];
}

/** The sequence of a request: its own field first, else the entries that REST has as headers. */
export function sequenceOf({ sequence_id, input }: PredictionsRequest, call: GrpcCall, keys: SequenceKeys): Sequence {
  const flag = (key: string) => isMarked(input[key]?.toString('utf8') ?? firstText(call.metadata, key));
  const ofCall = firstText(call.metadata, keys.id);
  const id = sequence_id ?? ofCall ?? '';
  const start = flag(keys.start);
  const end = flag(keys.end);
  if (id === '' && !start) return { mark: undefined, headers: [] };
  const headers: string[] = [];
  const show = (key: string, value: string) => {
    if (firstText(call.metadata, key) === undefined) headers.push(key, value);
  };
  if (id !== '') show(keys.id, id);
  if (start) show(keys.start, 'true');
  if (end) show(keys.end, 'true');
  return { mark: { id, start, end }, headers };
}
