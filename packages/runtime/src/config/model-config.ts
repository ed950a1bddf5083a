import type { LoadFailurePolicy } from '../domain/load-failure.js';

/** Options of the ONNX session, `onnx:` in `model-config.yaml`. */
export interface OnnxOptions {
  readonly providers?: readonly string[];
  readonly graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  readonly intraOpNumThreads?: number;
  readonly interOpNumThreads?: number;
  readonly executionMode?: 'sequential' | 'parallel';
  readonly enableProfiling?: boolean;
  readonly profileFilePrefix?: string;
  readonly enableCpuMemArena?: boolean;
  readonly enableMemPattern?: boolean;
  readonly logSeverityLevel?: number;
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** Raw session configuration entries (`session.*`); values are sent as strings. */
  readonly configEntries?: Readonly<Record<string, string>>;
  /** The main model, relative to the archive; default the manifest's serializedFile, else the only .onnx file. */
  readonly model?: string;
  /** Further models by name, relative to the archive. */
  readonly sessions?: Readonly<Record<string, string>>;
  /** False: a GPU that cannot be used may be replaced by the CPU, loudly. Default true: it fails the load. */
  readonly requireDevice?: boolean;
}

/** `model-config.yaml`; absent means that the file does not say. Durations as named. */
export interface ModelConfig {
  readonly minWorkers?: number;
  readonly maxWorkers?: number;
  readonly batchSize?: number;
  /** Milliseconds. */
  readonly maxBatchDelay?: number;
  /** Seconds. */
  readonly responseTimeout?: number;
  /** Seconds. */
  readonly startupTimeout?: number;
  /** Seconds. */
  readonly maxRetryTimeoutInSec?: number;
  readonly onLoadFailure?: LoadFailurePolicy;
  /** Loaded workers that wait for another one to fail. */
  readonly spareWorkers?: number;
  readonly clientTimeoutInMills?: number;
  readonly jobQueueSize?: number;
  readonly useJobTicket?: boolean;
  readonly newestFirstUnderLoad?: boolean;
  readonly deviceType?: 'cpu' | 'gpu';
  readonly deviceIds?: readonly number[];
  readonly parallelType?: string;
  readonly parallelLevel?: number;
  readonly continuousBatching?: boolean;
  readonly sequenceBatching?: boolean;
  readonly sequenceMaxIdleMSec?: number;
  readonly sequenceTimeoutMSec?: number;
  readonly maxNumSequence?: number;
  readonly maxSequenceJobQueueSize?: number;
  readonly useVenv?: boolean;
  readonly rerunOnWorkerDeath?: boolean;
  /** A bundled handler's name or a file of the archive; beats the manifest's. */
  readonly handler?: string;
  /** Threads of a run; `onnx.intraOpNumThreads` beats it. */
  readonly intraOpNumThreads?: number;
  readonly onnx: OnnxOptions;
  /** Every other key, for the handler. */
  readonly free: Readonly<Record<string, unknown>>;
}
