export type MetricType = 'counter' | 'gauge' | 'histogram';

/** Where a family shows: `torchserve` ones follow `metrics_mode`, `own` ones are always on the endpoint. */
export type FamilyGroup = 'torchserve' | 'own';

export interface FamilySpec {
  readonly name: string;
  readonly type: MetricType;
  readonly group: FamilyGroup;
  /** Unit as TorchServe's metric log lines write it (`Count`, `Milliseconds`, `Percent`), or the Prometheus base unit. */
  readonly unit: string;
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds of a histogram, ascending, without +Inf. */
  readonly buckets?: readonly number[];
}

/** Half a millisecond resolves a no-op model; a minute is the longest default response timeout times a half. */
const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const powersOfTwo = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const bytes = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
const loadSeconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

const host = ['Level', 'Hostname'];
const device = ['Level', 'DeviceId', 'Hostname'];
const perRequest = ['model_name', 'model_version', 'hostname'];
const perModel = ['ModelName', 'Level', 'Hostname'];
const model = ['model', 'version'];

type SpecOf<Type extends MetricType> = FamilySpec & { readonly type: Type };

function torchserve<Type extends 'counter' | 'gauge'>(
  name: string,
  type: Type,
  unit: string,
  labels: readonly string[],
  help: string,
): SpecOf<Type> {
  return { name, type, group: 'torchserve', unit, labels, help };
}
function own<Type extends MetricType>(
  name: string,
  type: Type,
  unit: string,
  labels: readonly string[],
  help: string,
  buckets?: readonly number[],
): SpecOf<Type> {
  return { name, type, group: 'own', unit, labels, help, ...(buckets === undefined ? {} : { buckets }) };
}

/** Every family that the server itself exports; handler metrics and those of the Node process come beside them. */
export const families = {
  Requests2XX: torchserve('Requests2XX', 'counter', 'Count', host, 'HTTP answers with a 2xx status, on every listener.'),
  Requests4XX: torchserve('Requests4XX', 'counter', 'Count', host, 'HTTP answers with a 4xx status, on every listener.'),
  Requests5XX: torchserve('Requests5XX', 'counter', 'Count', host, 'HTTP answers with any other status, on every listener.'),
  inferenceRequests: torchserve(
    'ts_inference_requests_total',
    'counter',
    'Count',
    perRequest,
    'Inference requests that ended, in whatever way; model_version is default when the client named none.',
  ),
  inferenceLatency: torchserve(
    'ts_inference_latency_microseconds',
    'counter',
    'Microseconds',
    perRequest,
    'Sum of the time from the complete request to its answer.',
  ),
  queueLatency: torchserve(
    'ts_queue_latency_microseconds',
    'counter',
    'Microseconds',
    perRequest,
    'Sum of the time that requests waited in the queue.',
  ),
  QueueTime: torchserve('QueueTime', 'gauge', 'Milliseconds', host, 'Time in the queue of the latest request.'),
  WorkerThreadTime: torchserve(
    'WorkerThreadTime',
    'gauge',
    'Milliseconds',
    host,
    'Time of the latest request outside the queue and the stages of its worker.',
  ),
  WorkerLoadTime: torchserve(
    'WorkerLoadTime',
    'gauge',
    'Milliseconds',
    ['WorkerName', 'Level', 'Hostname'],
    'Time a worker took to load its model.',
  ),
  CPUUtilization: torchserve(
    'CPUUtilization',
    'gauge',
    'Percent',
    host,
    'Processor time in use, of the quota of the container or of this host.',
  ),
  MemoryUsed: torchserve(
    'MemoryUsed',
    'gauge',
    'Megabytes',
    host,
    'Memory in use, in the container if it has a limit, else on this host.',
  ),
  MemoryAvailable: torchserve(
    'MemoryAvailable',
    'gauge',
    'Megabytes',
    host,
    'Memory available, in the container if it has a limit, else on this host.',
  ),
  MemoryUtilization: torchserve(
    'MemoryUtilization',
    'gauge',
    'Percent',
    host,
    'Share of the memory in use, of the limit of the container or of this host.',
  ),
  DiskUsage: torchserve('DiskUsage', 'gauge', 'Gigabytes', host, 'Space in use on the root file system.'),
  DiskUtilization: torchserve('DiskUtilization', 'gauge', 'Percent', host, 'Share of the root file system in use.'),
  DiskAvailable: torchserve('DiskAvailable', 'gauge', 'Gigabytes', host, 'Space available on the root file system.'),
  GPUMemoryUtilization: torchserve('GPUMemoryUtilization', 'gauge', 'Percent', device, 'Share of the device memory in use.'),
  GPUMemoryUsed: torchserve('GPUMemoryUsed', 'gauge', 'Megabytes', device, 'Device memory in use.'),
  GPUUtilization: torchserve('GPUUtilization', 'gauge', 'Percent', device, 'Time in which the device was busy.'),
  HandlerTime: torchserve('HandlerTime', 'gauge', 'ms', perModel, 'Preprocessing to postprocessing of the latest request.'),
  PredictionTime: torchserve('PredictionTime', 'gauge', 'ms', perModel, 'Preprocessing to encoding of the latest request.'),

  requests: own(
    'onnxserve_requests_total',
    'counter',
    'requests',
    ['model', 'version', 'outcome', 'reason'],
    'Inference requests that ended, once each. Outcome ok or the error code; model and version are empty when no such model is registered.',
  ),
  requestDuration: own(
    'onnxserve_request_duration_seconds',
    'histogram',
    'seconds',
    model,
    'Time from the complete request to its answer, failed requests included.',
    seconds,
  ),
  stageDuration: own(
    'onnxserve_stage_duration_seconds',
    'histogram',
    'seconds',
    ['model', 'version', 'stage'],
    'Time of a request in each stage: queue, preprocess, wait, inference, postprocess, encode. Each is measured on its own.',
    seconds,
  ),
  batchSize: own('onnxserve_batch_size', 'histogram', 'requests', model, 'Requests sent to a worker together.', powersOfTwo),
  batchRows: own('onnxserve_batch_rows', 'histogram', 'rows', model, 'Rows of the batch axis in one session run.', powersOfTwo),
  batchRelease: own(
    'onnxserve_batch_release_total',
    'counter',
    'batches',
    ['model', 'version', 'reason'],
    'Batches by what released them: full, delay, idle (a worker was free), prefetch, join (a running batch had room), rerun.',
  ),
  queueDepth: own('onnxserve_queue_depth', 'gauge', 'requests', model, 'Requests that wait for a worker now.'),
  queueOldestAge: own(
    'onnxserve_queue_oldest_age_seconds',
    'gauge',
    'seconds',
    model,
    'How long the oldest waiting request has waited; 0 when none waits.',
  ),
  inFlight: own('onnxserve_in_flight', 'gauge', 'requests', model, 'Requests that workers hold now.'),
  sequences: own(
    'onnxserve_sequences',
    'gauge',
    'sequences',
    model,
    'Sequences that have a place now; the limit is maxNumSequence.',
  ),
  workers: own('onnxserve_workers', 'gauge', 'workers', ['model', 'version', 'state'], 'Workers by state.'),
  workerRestarts: own(
    'onnxserve_worker_restarts_total',
    'counter',
    'restarts',
    model,
    'Worker processes that replaced an ended one.',
  ),
  responseBytes: own('onnxserve_response_bytes', 'histogram', 'bytes', model, 'Size of successful answers.', bytes),
  modelLoad: own(
    'onnxserve_model_load_seconds',
    'histogram',
    'seconds',
    model,
    'Time in which a worker became ready.',
    loadSeconds,
  ),
  eventLoopDelay: own(
    'onnxserve_event_loop_delay_seconds',
    'histogram',
    'seconds',
    [],
    'How late a timer of the front process fired, sampled a hundred times a second.',
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
  ),
  handlerMetricsRefused: own(
    'onnxserve_handler_metrics_refused_total',
    'counter',
    'values',
    ['model', 'version', 'reason'],
    'Values of handler metrics that were refused: conflict with another definition, invalid value, not listed, too many metrics or series.',
  ),
  workerLogDropped: own(
    'onnxserve_worker_log_dropped_bytes_total',
    'counter',
    'bytes',
    model,
    'Output of workers that was not logged because it came faster than the limit.',
  ),
  diskSize: own(
    'onnxserve_disk_size_bytes',
    'gauge',
    'bytes',
    ['folder'],
    'Size of the file system of a folder: model_store, temp_directory, log_location.',
  ),
  diskFree: own(
    'onnxserve_disk_free_bytes',
    'gauge',
    'bytes',
    ['folder'],
    'Space that is left for the server on the file system of a folder: model_store, temp_directory, log_location.',
  ),
  buildInfo: own('onnxserve_build_info', 'gauge', 'info', ['version', 'node'], 'Always 1; the versions are in the labels.'),
} as const satisfies Record<string, FamilySpec>;

export type FamilyKey = keyof typeof families;

export const stages = ['queue', 'preprocess', 'wait', 'inference', 'postprocess', 'encode'] as const;
export const releases = ['full', 'delay', 'idle', 'prefetch', 'join', 'rerun'] as const;

/** Reasons that may become a label; any other is counted as `other`. */
export const knownReasons: ReadonlySet<string> = new Set([
  'bad-input',
  'input-too-large',
  'not-found',
  'unauthorized',
  'conflict',
  'archive-broken',
  'not-ready',
  'draining',
  'cancelled',
  'workers-starting',
  'workers-too-few',
  'queue-full',
  'too-many-sequences',
  'sequence-queue-full',
  'sequence-expired',
  'sequence-lost',
  'queue-timeout',
  'response-timeout',
  'worker-died',
  'handler-error',
  'device-out-of-memory',
  'host-out-of-memory',
  'serialisation-bound',
  'provider-missing',
  'not-implemented',
  'internal',
]);
