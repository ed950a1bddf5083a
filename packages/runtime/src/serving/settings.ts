import type { SequenceSettings } from '../batching/sequence.js';
import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import type { ModelConfig } from '../config/model-config.js';
import type { LoadFailurePolicy } from '../domain/load-failure.js';
import type { ModelArchive } from '../registry/model-archive.js';
import type { RegisterOptions } from './management-service.js';

/** What holds for a model after every source has had its say. */
export interface ModelSettings {
  readonly batchSize: number;
  /** Milliseconds, as describe shows it. */
  readonly maxBatchDelay: number;
  /** False: nobody named a delay, so batches are released adaptively. */
  readonly delayIsExplicit: boolean;
  /** Seconds. */
  readonly responseTimeout: number;
  /** Seconds. */
  readonly startupTimeout: number;
  /** Seconds. */
  readonly maxRetryTimeoutInSec: number;
  readonly onLoadFailure: LoadFailurePolicy;
  readonly spareWorkers: number;
  readonly clientTimeoutInMills: number;
  readonly jobQueueSize: number;
  readonly useJobTicket: boolean;
  /** Undefined: requests stand for themselves. */
  readonly sequences: SequenceSettings | undefined;
  /** Threads of a run, 0: one per core; undefined: the environment's, else cores divided by workers. */
  readonly threads: number | undefined;
  readonly minWorkers: number;
  readonly maxWorkers: number;
}

const DEFAULT_DELAY_MS = 100;
const DEFAULT_RETRY_WINDOW_S = 300;

/**
 * The registration call beats `model-config.yaml`, which beats the `models` property, which beats the defaults. Worker counts alone
 * go the other way, as with TorchServe: those of `model-config.yaml` beat `initial_workers`. What a snapshot says of a model beats its
 * `model-config.yaml`: it is what the last run had after every call.
 */
export function effectiveSettings(
  archive: ModelArchive,
  config: ServerConfig,
  given: Partial<RegisterOptions>,
  startup: StartupModelSettings | undefined,
): ModelSettings {
  const restored = config.modelsFromSnapshot === true && startup !== undefined ? startup : undefined;
  const file = restored === undefined ? archive.config : { ...archive.config, ...withoutUndefined(restored) };
  const delay = restored?.adaptive === true ? undefined : (given.maxBatchDelay ?? file.maxBatchDelay ?? startup?.maxBatchDelay);
  const initial = given.initialWorkers ?? 0;
  const configured =
    restored === undefined &&
    file.minWorkers !== undefined &&
    file.minWorkers > 0 &&
    (file.maxWorkers ?? file.minWorkers) >= file.minWorkers;
  const minWorkers = configured ? (file.minWorkers ?? 0) : (startup?.minWorkers ?? initial);
  const maxWorkers = configured ? (file.maxWorkers ?? file.minWorkers ?? 0) : (startup?.maxWorkers ?? minWorkers);
  const sequences = sequenceSettings(archive);
  return {
    batchSize: Math.max(1, given.batchSize ?? file.batchSize ?? startup?.batchSize ?? 1),
    maxBatchDelay: delay ?? restored?.maxBatchDelay ?? DEFAULT_DELAY_MS,
    delayIsExplicit: delay !== undefined,
    responseTimeout: given.responseTimeout ?? file.responseTimeout ?? startup?.responseTimeout ?? config.defaultResponseTimeout,
    startupTimeout: given.startupTimeout ?? file.startupTimeout ?? startup?.startupTimeout ?? config.defaultStartupTimeout,
    maxRetryTimeoutInSec: file.maxRetryTimeoutInSec ?? DEFAULT_RETRY_WINDOW_S,
    onLoadFailure: file.onLoadFailure ?? config.onLoadFailure,
    spareWorkers: file.spareWorkers ?? 0,
    clientTimeoutInMills: file.clientTimeoutInMills ?? 0,
    jobQueueSize: file.jobQueueSize ?? Math.max(config.jobQueueSize, mostMembers(sequences)),
    sequences,
    useJobTicket: file.useJobTicket ?? false,
    threads: file.onnx.intraOpNumThreads ?? file.intraOpNumThreads,
    minWorkers,
    maxWorkers: Math.max(minWorkers, maxWorkers),
  };
}

function withoutUndefined({
  batchSize,
  maxBatchDelay,
  responseTimeout,
  startupTimeout,
}: StartupModelSettings): Partial<ModelConfig> {
  const settings = { batchSize, maxBatchDelay, responseTimeout, startupTimeout };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function sequenceSettings({ config }: ModelArchive): SequenceSettings | undefined {
  if (config.sequenceBatching !== true) return undefined;
  return {
    maxNumSequence: config.maxNumSequence ?? 1,
    maxSequenceJobQueueSize: config.maxSequenceJobQueueSize ?? 1,
    sequenceMaxIdleMSec: config.sequenceMaxIdleMSec ?? 0,
    sequenceTimeoutMSec: config.sequenceTimeoutMSec ?? 0,
  };
}

/** What the limits of sequences let wait, the queue must hold. */
function mostMembers(sequences: SequenceSettings | undefined): number {
  return sequences === undefined ? 0 : sequences.maxNumSequence * sequences.maxSequenceJobQueueSize;
}
