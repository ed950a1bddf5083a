import type { NamedTensors, TensorSignature } from '@onnxserve/handler-kit';
import type { OnnxOptions } from '../../config/model-config.js';

/** When a run began and ended in the engine, monotonic nanoseconds. Filled by the session. */
export interface RunTiming {
  startedAt: number;
  endedAt: number;
  /** Nanoseconds of it that the thread had no core, where the system tells. */
  waited: number;
}

/** A model in memory, of any engine. */
export interface Session {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly providers: readonly string[];
  /** True while runs block the calling thread, which only very short ones may. */
  readonly inMainThread?: boolean;
  run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors>;
  /** One run over the rows of several requests, which fit together as `collate` wants them. */
  runRows(pieces: readonly NamedTensors[], outputs?: readonly string[], timing?: RunTiming): Promise<NamedTensors>;
}

export interface SessionRequest {
  readonly file: string;
  readonly onnx: OnnxOptions;
  readonly device: { readonly type: 'cpu' | 'gpu'; readonly id: number | undefined };
  /** Threads inside one run. */
  readonly threads: number;
  /** Folder that custom-op libraries are named in. */
  readonly directory: string;
}

export interface Engine {
  open(request: SessionRequest): Promise<Session>;
}
