import type { LoadedInfo } from '../ipc/messages.js';
import type { Worker } from '../workers/worker.js';
import type { ModelDescription, WorkerDescription } from './management-service.js';
import type { ServedModel } from './served-model.js';

export function describeModel(model: ServedModel): ModelDescription {
  const { archive, settings, pool, batcher } = model;
  const { config } = archive;
  const ready = pool.workers.find((worker) => worker.state.at === 'ready')?.state;
  const info = ready?.at === 'ready' ? ready.info : undefined;
  const lastError = pool.lastError();
  const onCpu = config.deviceType === 'gpu' && info !== undefined && !info.providers.includes('cuda');
  const threadWarning = model.threadWarning();
  const warnings = [
    ...archive.warnings,
    ...(threadWarning === undefined ? [] : [threadWarning]),
    ...modeWarnings(model, info),
    ...(onCpu ? ['A GPU was asked for and the CPU is used (onnx: { requireDevice: false }).'] : []),
  ];
  return {
    modelName: archive.name,
    modelVersion: archive.version,
    ...(archive.url === undefined ? {} : { modelUrl: archive.url }),
    runtime: archive.runtime,
    minWorkers: pool.min,
    maxWorkers: pool.max,
    batchSize: settings.batchSize,
    maxBatchDelay: settings.maxBatchDelay,
    responseTimeout: settings.responseTimeout,
    startupTimeout: settings.startupTimeout,
    maxRetryTimeoutInSec: settings.maxRetryTimeoutInSec,
    clientTimeoutInMills: settings.clientTimeoutInMills,
    parallelType: config.parallelType ?? '',
    parallelLevel: config.parallelLevel ?? 0,
    deviceType: config.deviceType ?? 'cpu',
    continuousBatching: config.continuousBatching ?? info?.continuous ?? false,
    useJobTicket: settings.useJobTicket,
    useVenv: config.useVenv ?? false,
    stateful: config.sequenceBatching ?? false,
    sequenceMaxIdleMSec: config.sequenceMaxIdleMSec ?? 0,
    sequenceTimeoutMSec: config.sequenceTimeoutMSec ?? 0,
    maxNumSequence: settings.sequences?.maxNumSequence ?? config.maxNumSequence ?? 0,
    maxSequenceJobQueueSize: settings.sequences?.maxSequenceJobQueueSize ?? config.maxSequenceJobQueueSize ?? 0,
    loadedAtStartup: model.loadedAtStartup && !model.restored,
    workers: pool.workers.map(describeWorker),
    jobQueueStatus: {
      remainingCapacity: Math.max(0, settings.jobQueueSize - batcher.queued),
      pendingRequests: batcher.queued,
    },
    jobQueueSize: settings.jobQueueSize,
    ...(batcher.activeSequences === undefined ? {} : { activeSequences: batcher.activeSequences }),
    threadsFrom: model.threads().from,
    batchRelease: settings.delayIsExplicit ? 'delay' : 'adaptive',
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(lastError === undefined ? {} : { lastError: lastError.message }),
    ...(info === undefined ? {} : { inputs: info.inputs, outputs: info.outputs }),
  };
}

/** Settings of sequences and continuous batching that do not do what they seem to. */
function modeWarnings({ archive, settings }: ServedModel, info: LoadedInfo | undefined): string[] {
  const { sequences } = settings;
  const warnings: string[] = [];
  if (sequences !== undefined && sequences.sequenceMaxIdleMSec === 0 && sequences.sequenceTimeoutMSec === 0) {
    warnings.push('Sequences whose clients send no end mark keep their places for ever; set sequenceMaxIdleMSec.');
  }
  const { continuousBatching } = archive.config;
  if (continuousBatching === true && info?.continuous === false) {
    warnings.push('continuousBatching has no effect: the handler has no step(), so requests run in ordinary batches.');
  }
  return warnings;
}

function describeWorker(worker: Worker): WorkerDescription {
  const { state } = worker;
  return {
    id: worker.workerId,
    startTime: worker.startTime.toISOString(),
    status: state.at === 'ready' ? 'READY' : 'UNLOADING',
    memoryUsage: worker.memory,
    pid: worker.pid ?? 0,
    gpu: state.at === 'ready' && state.info.providers.includes('cuda'),
    gpuUsage: 'N/A',
    state: worker.spare && state.at === 'ready' ? 'spare' : state.at,
    restarts: worker.restarts,
    threads: worker.threads,
    ...(state.at === 'waiting' ? { nextStart: new Date(state.until).toISOString() } : {}),
    ...(worker.lastError === undefined ? {} : { lastError: worker.lastError.message }),
    ...(state.at === 'ready' ? { loadSeconds: Math.round(state.info.loadMs) / 1000, providers: state.info.providers } : {}),
  };
}
