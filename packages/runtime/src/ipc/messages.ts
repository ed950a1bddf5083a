import type { SequenceEndReason } from '@onnxserve/handler-kit';
import type { OnnxOptions } from '../config/model-config.js';
import type { ErrorCode, Reason } from '../domain/errors.js';
import type { LogLevel } from '../domain/log-levels.js';
import type { ThreadsOrigin } from '../config/threads.js';
import type { Envelope } from '../domain/envelope.js';
import type { RequestKind, StageTimes } from '../domain/request.js';
import type { HandlerSpec } from '../registry/model-archive.js';

/** Everything a worker needs to serve a model. */
export interface LoadSpec {
  readonly workerId: string;
  readonly name: string;
  readonly version: string;
  readonly directory: string;
  readonly handler: HandlerSpec;
  readonly modelFile: string | undefined;
  readonly sessionFiles: Readonly<Record<string, string>>;
  readonly onnx: OnnxOptions;
  readonly free: Readonly<Record<string, unknown>>;
  readonly device: { readonly type: 'cpu' | 'gpu'; readonly id: number | undefined };
  /** Threads inside one run. */
  readonly threads: number;
  readonly threadsFrom: ThreadsOrigin;
  readonly batchSize: number;
  /** `maxBatchDelay` is not set: batches are released, and runs sized, by what pays. */
  readonly adaptive: boolean;
  /** Seconds that a stage may wait for its handler; 0 or less: no limit. */
  readonly responseTimeout: number;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** Bytes. */
  readonly maxResponseSize: number;
  /** Pictures have the usual limit of pixels. */
  readonly limitPixels: boolean;
  /** What bodies are taken out of unless their path says otherwise. */
  readonly envelope: Envelope | undefined;
  /** Requests belong to sequences. */
  readonly sequences: boolean;
}

export interface WireItem {
  readonly job: number;
  readonly id: string;
  readonly kind: RequestKind;
  readonly rawHeaders: readonly string[];
  readonly urlPath: string;
  readonly query: ReadonlyArray<readonly [string, string]>;
  readonly queryIsInput?: boolean;
  /** Length of the body among the frame's blobs, in order. */
  readonly length: number;
  /** Named inputs that the body is made of: name and length of each. */
  readonly parts?: ReadonlyArray<readonly [name: string, length: number]>;
  readonly envelope?: Envelope | 'none';
  readonly sequence?: WireSequence;
  readonly receivedAt: number;
  readonly deadline?: number;
}

/** The sequence of an item. */
export interface WireSequence {
  /** The same for all items that share state. */
  readonly number: number;
  readonly id: string;
  readonly start: boolean;
  readonly end: boolean;
}

export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly reason?: Reason;
  readonly status?: number;
}

export type ToWorker =
  | { readonly type: 'load'; readonly spec: LoadSpec }
  /** The least important lines that the handler's log need send. */
  | { readonly type: 'log-level'; readonly level: LogLevel }
  | { readonly type: 'batch'; readonly batch: number; readonly items: readonly WireItem[] }
  | { readonly type: 'cancel'; readonly jobs: readonly number[] }
  /** Asks for items back that are not in a run; at most `count`, the latest first. */
  | { readonly type: 'recall'; readonly count: number }
  /** So many bytes of a stream were taken by the client. */
  | { readonly type: 'taken'; readonly job: number; readonly bytes: number }
  /** A sequence has ended: its state is dropped. */
  | { readonly type: 'end-sequence'; readonly number: number; readonly reason: SequenceEndReason }
  | { readonly type: 'stop' };

export interface WireSignature {
  readonly name: string;
  readonly datatype: string;
  readonly shape: ReadonlyArray<number | string>;
}

export interface LoadedInfo {
  readonly inputs: readonly WireSignature[];
  readonly outputs: readonly WireSignature[];
  readonly providers: readonly string[];
  readonly wholeBatch: boolean;
  /** Requests join and leave a running batch. */
  readonly continuous: boolean;
  readonly loadMs: number;
}

export type WireResult =
  | {
      readonly job: number;
      readonly ok: true;
      readonly status: number;
      readonly headers: ReadonlyArray<readonly [string, string]>;
      readonly length: number;
      readonly stages: StageTimes;
      readonly batchSize: number;
      /** Monotonic nanoseconds when postprocess ended: encoding and the way back start here. */
      readonly postprocessedAt: number;
    }
  | {
      readonly job: number;
      readonly ok: false;
      readonly error: WireError;
      readonly stages: StageTimes;
      readonly batchSize: number;
    };

export interface WireMetric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly value: number;
  readonly unit: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly requestIds: string;
}

export type FromWorker =
  | { readonly type: 'loaded'; readonly info: LoadedInfo }
  | { readonly type: 'failed'; readonly error: WireError & { readonly stack?: string } }
  /** A run of these items starts; `rows` counts the rows of all of them. */
  | { readonly type: 'run'; readonly jobs: readonly number[]; readonly rows: number }
  | { readonly type: 'results'; readonly items: readonly WireResult[] }
  | {
      readonly type: 'stream-start';
      readonly job: number;
      readonly status: number;
      readonly headers: ReadonlyArray<readonly [string, string]>;
      readonly stages: StageTimes;
      readonly batchSize: number;
    }
  | { readonly type: 'stream-chunk'; readonly job: number }
  | { readonly type: 'stream-end'; readonly job: number; readonly stages: StageTimes; readonly error?: WireError }
  | { readonly type: 'recalled'; readonly jobs: readonly number[] }
  | { readonly type: 'metrics'; readonly items: readonly WireMetric[] }
  | {
      readonly type: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly message: string;
      readonly fields?: Readonly<Record<string, unknown>>;
    };
