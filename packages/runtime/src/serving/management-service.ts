import type { ModelReadiness } from './readiness.js';

/** The control plane. REST, gRPC and the console translate to these calls. */
export interface RegisterOptions {
  readonly url: string;
  readonly modelName?: string;
  readonly handler?: string;
  readonly runtime?: string;
  readonly batchSize?: number;
  readonly maxBatchDelay?: number;
  readonly initialWorkers?: number;
  readonly synchronous?: boolean;
  /** Seconds. */
  readonly responseTimeout?: number;
  /** Seconds. */
  readonly startupTimeout?: number;
}

export interface ScaleOptions {
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly synchronous: boolean;
}

/** `done`: finished; `started`: goes on in the background. */
export interface OperationStatus {
  readonly state: 'done' | 'started';
  /** A sentence for people. */
  readonly status: string;
}

export interface WorkerDescription {
  readonly id: string;
  readonly startTime: string;
  readonly status: 'READY' | 'UNLOADING';
  readonly memoryUsage: number;
  readonly pid: number;
  readonly gpu: boolean;
  readonly gpuUsage: string;
  /** Finer than `status`. */
  readonly state: string;
  readonly restarts: number;
  /** Threads of one of its runs. */
  readonly threads: number;
  readonly lastError?: string;
  /** When a worker that waits is started again. */
  readonly nextStart?: string;
  readonly loadSeconds?: number;
  readonly providers?: readonly string[];
}

/** TorchServe's describe fields, in its order, and ours after them. */
export interface ModelDescription {
  readonly modelName: string;
  readonly modelVersion: string;
  /** Not there for a function of a workflow. */
  readonly modelUrl?: string;
  readonly runtime: string;
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly batchSize: number;
  readonly maxBatchDelay: number;
  readonly responseTimeout: number;
  readonly startupTimeout: number;
  readonly maxRetryTimeoutInSec: number;
  readonly clientTimeoutInMills: number;
  readonly parallelType: string;
  readonly parallelLevel: number;
  readonly deviceType: string;
  readonly continuousBatching: boolean;
  readonly useJobTicket: boolean;
  readonly useVenv: boolean;
  readonly stateful: boolean;
  readonly sequenceMaxIdleMSec: number;
  readonly sequenceTimeoutMSec: number;
  readonly maxNumSequence: number;
  readonly maxSequenceJobQueueSize: number;
  readonly loadedAtStartup: boolean;
  readonly workers: readonly WorkerDescription[];
  readonly jobQueueStatus: { readonly remainingCapacity: number; readonly pendingRequests: number };
  readonly customizedMetadata?: unknown;
  readonly jobQueueSize?: number;
  /** Sequences that have a place now. */
  readonly activeSequences?: number;
  /** Whether a batch waits for `maxBatchDelay` or leaves as soon as a worker can take it. */
  readonly batchRelease?: 'delay' | 'adaptive';
  /** What the threads of a run come from. */
  readonly threadsFrom?: string;
  readonly warnings?: readonly string[];
  readonly lastError?: string;
  readonly inputs?: unknown;
  readonly outputs?: unknown;
}

export interface ModelList {
  readonly nextPageToken?: string;
  readonly models: ReadonlyArray<{ readonly modelName: string; readonly modelUrl: string }>;
}

export interface ManagementService {
  /** @throws {ServeError} */
  register(options: RegisterOptions): Promise<OperationStatus>;
  unregister(modelName: string, version: string | undefined): Promise<OperationStatus>;
  scale(modelName: string, version: string | undefined, options: ScaleOptions): Promise<OperationStatus>;
  setDefault(modelName: string, version: string): Promise<OperationStatus>;
  /** Version undefined: the default one; `all`: every version. */
  describe(modelName: string, version: string | undefined, customized: boolean): Promise<readonly ModelDescription[]>;
  list(limit: number, pageToken: number): ModelList;
  /** What the model can do now. @throws {ServeError} MODEL_NOT_FOUND, MODEL_VERSION_NOT_FOUND */
  readiness(modelName: string, version: string | undefined): ModelReadiness;
  /** TorchServe's /ping: healthy, or the models that are not with the reason. */
  health(): Health;
}

export interface Health {
  readonly healthy: boolean;
  readonly problems: ReadonlyArray<{ readonly model: string; readonly reason: string; readonly message: string }>;
}
