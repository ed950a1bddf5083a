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
    continuousBatching: config.continuousBatching ?? false,
    useJobTicket: settings.useJobTicket,
    useVenv: config.useVenv ?? false,
    stateful: config.sequenceBatching ?? false,
    sequenceMaxIdleMSec: config.sequenceMaxIdleMSec ?? 0,
    sequenceTimeoutMSec: config.sequenceTimeoutMSec ?? 0,
    maxNumSequence: config.maxNumSequence ?? 0,
    maxSequenceJobQueueSize: config.maxSequenceJobQueueSize ?? 0,
    loadedAtStartup: model.loadedAtStartup && !model.restored,
    workers: pool.workers.map(describeWorker),
    jobQueueStatus: {
      remainingCapacity: Math.max(0, settings.jobQueueSize - batcher.queued),
      pendingRequests: batcher.queued,
    },
    jobQueueSize: settings.jobQueueSize,
    threadsFrom: model.threads().from,
    batchRelease: settings.delayIsExplicit ? 'delay' : 'adaptive',
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(lastError === undefined ? {} : { lastError: lastError.message }),
    ...(info === undefined ? {} : { inputs: info.inputs, outputs: info.outputs }),
  };
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
    state: state.at,
    restarts: worker.restarts,
    threads: worker.threads,
    ...(worker.lastError === undefined ? {} : { lastError: worker.lastError.message }),
    ...(state.at === 'ready' ? { loadSeconds: Math.round(state.info.loadMs) / 1000, providers: state.info.providers } : {}),
  };
}
