import type { DataOf, Datatype, NamedTensors, TensorSignature } from '@onnxserve/handler-kit';
import { Tensor } from '@onnxserve/handler-kit';
import type { SessionRequest } from './session.js';

/** What crosses the border between the worker's main thread and its inference thread. Buffers are moved, not copied. */
export type ThreadRequest =
  | { readonly type: 'open'; readonly call: number; readonly session: number; readonly request: SessionRequest }
  | {
      readonly type: 'run';
      readonly call: number;
      readonly session: number;
      readonly feeds: PackedTensors;
      readonly outputs: readonly string[] | undefined;
    };

export interface OpenedSession {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly providers: readonly string[];
}

export type ThreadReply =
  /** The thread takes requests, and watches the parent process. */
  | { readonly type: 'up' }
  | { readonly type: 'opened'; readonly call: number; readonly session: OpenedSession }
  | {
      readonly type: 'ran';
      readonly call: number;
      readonly outputs: PackedTensors;
      /** The memory of the feeds, to be used again. */
      readonly feeds: readonly ArrayBuffer[];
      readonly startedAt: number;
      readonly endedAt: number;
      readonly waited: number;
    }
  | { readonly type: 'failed'; readonly call: number; readonly name: string; readonly message: string };

export type PackedTensors = ReadonlyArray<{
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: DataOf[Datatype];
}>;

/** Outputs: the arrays belong to nobody else, so they are moved. */
export function pack(tensors: NamedTensors): { packed: PackedTensors; transfer: ArrayBuffer[] } {
  const transfer = new Set<ArrayBuffer>();
  const packed = Object.entries(tensors).map(([name, tensor]) => {
    let { data } = tensor;
    if (!Array.isArray(data)) {
      const movable = data.byteOffset === 0 && data.byteLength === data.buffer.byteLength && data.buffer instanceof ArrayBuffer;
      if (!movable) data = data.slice();
      transfer.add(data.buffer as ArrayBuffer);
    }
    return { name, datatype: tensor.datatype, shape: tensor.shape, data };
  });
  return { packed, transfer: [...transfer] };
}

export function unpack(packed: PackedTensors): NamedTensors {
  const tensors: NamedTensors = {};
  for (const { name, datatype, shape, data } of packed) tensors[name] = new Tensor(datatype, shape, data);
  return tensors;
}
