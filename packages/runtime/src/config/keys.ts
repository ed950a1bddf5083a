import { envelopes } from '../domain/envelope.js';
import { loadFailurePolicies } from '../domain/load-failure.js';
import { address, boolean, choice, integer, json, key, type KeySpec, number, path, text } from './key-spec.js';
import { grpcKeys } from './keys-grpc.js';
import { securityKeys } from './keys-security.js';
import { unusedKeys } from './keys-unused.js';

const maxInt = 2_147_483_647;
/** Longest time that a timer can hold, in seconds. */
const maxSeconds = 2_147_483;

const usedKeys: readonly KeySpec[] = [
  key('inference_address', address, 'Where predictions are answered. `http://host[:port]` or `unix:/path`; without a port 80.', {
    default: 'http://127.0.0.1:8080',
  }),
  key('management_address', address, 'Where models are managed; without a port 8081. Equal addresses share one listener.', {
    default: 'http://127.0.0.1:8081',
  }),
  key('metrics_address', address, 'Where Prometheus scrapes; without a port 8082.', { default: 'http://127.0.0.1:8082' }),
  key(
    'model_store',
    path,
    'Folder of the archives. Needed unless every model to load is given as a path or URL. May be read-only.',
  ),
  key('workflow_store', path, 'Folder of the workflow archives.', { defaultDoc: 'the model store' }),
  key(
    'load_models',
    { kind: 'archives' },
    'What to load at start: `all`, or a comma list of `archive` and `name=archive`. Without it, every model of `models` is loaded.',
  ),
  key(
    'models',
    json,
    'JSON `{name: {version: {marName, minWorkers, maxWorkers, batchSize, maxBatchDelay, responseTimeout, startupTimeout, runtimeType, defaultVersion}}}`. ' +
      'A value counts where the `model-config.yaml` of the archive gives none. Numbers must be 1 or more.',
    { environment: false },
  ),
  key('model_snapshot', json, 'JSON of the models to restore, as snapshots hold it. `load_models` of the file is ignored then.', {
    environment: false,
  }),
  key(
    'default_workers_per_model',
    integer(0, 1024),
    'Workers of a start-up model that names none. 0: one per GPU, else per CPU.',
    {
      default: '0',
    },
  ),
  key('max_workers_limit', integer(1, 1024), 'The most workers that one model may be given by any setting or call.', {
    default: '64',
    from: 'onnxserve',
  }),
  key('job_queue_size', integer(1, 10_000_000), 'Requests that may wait per model; one more is refused with 503.', {
    default: '100',
    unit: 'requests',
  }),
  key('default_response_timeout', integer(1, maxSeconds), 'How long a worker may take to answer a batch.', {
    default: '120',
    unit: 's',
  }),
  key('default_startup_timeout', integer(1, maxSeconds), 'How long a worker may take to load its model.', {
    default: '120',
    unit: 's',
  }),
  key(
    'on_load_failure',
    choice(...loadFailurePolicies),
    'What becomes of a model that cannot be loaded, unless its `onLoadFailure` says: `retry`: workers are started again, with growing pauses, for `maxRetryTimeoutInSec`. ' +
      '`give-up`: they are not. `exit`: as `retry`, then the server ends with exit code 3.',
    { default: 'retry', from: 'onnxserve' },
  ),
  key(
    'listen_after_loading',
    boolean,
    'Open the inference listeners, HTTP and gRPC, only when the server is ready for the first time: for probes that take an open port for readiness. Listeners of the same address wait with them.',
    { default: 'false', from: 'onnxserve' },
  ),
  key('unregister_model_timeout', integer(1, maxSeconds), 'How long to wait for a worker to end when its model goes.', {
    default: '120',
    unit: 's',
  }),
  key('number_of_gpu', integer(0, 1024), 'The most GPUs to use.', { defaultDoc: 'all' }),
  key('max_request_size', integer(1, maxInt), 'Largest request body; a larger one gets 413.', {
    default: '6553500',
    unit: 'bytes',
  }),
  key(
    'max_body_memory',
    integer(1, Number.MAX_SAFE_INTEGER),
    'What the bodies of all HTTP requests that are here may take together; one more is refused with 503.',
    { defaultDoc: 'a quarter of the memory', unit: 'bytes', from: 'onnxserve' },
  ),
  key('queue_full_status', choice('503', '429'), 'Status of a request that finds the queue full.', {
    default: '503',
    from: 'onnxserve',
  }),
  key('client_write_timeout', integer(0, maxSeconds), 'How long a client may take nothing of its answer. 0: for ever.', {
    default: '60',
    unit: 's',
    from: 'onnxserve',
  }),
  key('max_response_size', integer(1, maxInt), 'Largest answer of a handler.', { default: '6553500', unit: 'bytes' }),
  key('max_archive_size', integer(1, Number.MAX_SAFE_INTEGER), 'What an archive may unpack to.', {
    default: '21474836480',
    unit: 'bytes',
    from: 'onnxserve',
  }),
  key('max_archive_ratio', number(1, 1_000_000), 'What one byte of an archive may become when unpacked, on average.', {
    default: '200',
    from: 'onnxserve',
  }),
  key(
    'limit_max_image_pixels',
    boolean,
    'Refuse pictures of more than 178,956,970 pixels, unless the handler has a limit of its own (`maxPixels`).',
    { default: 'true' },
  ),
  key('default_service_handler', text, 'Handler of archives whose manifest names none.'),
  key(
    'service_envelope',
    choice(...envelopes),
    "Takes bodies out of an envelope before handlers see them, on TorchServe's own prediction paths: `body`, `json`, `kserve`, `kservev2`.",
  ),
  key(
    'allowed_urls',
    { kind: 'patterns' },
    'Comma list of regular expressions; a URL given to register must match one in full, in any case. Empty: only names inside the model store. ' +
      "TorchServe's default was `file://.*|http(s)?://.*`.",
    { defaultDoc: 'empty' },
  ),
  key('use_env_allowed_urls', boolean, 'Take `allowed_urls` from `TS_ALLOWED_URLS`.', { default: 'false', environment: false }),
  key('enable_envvars_config', boolean, 'Let `TS_<KEY>` variables replace keys.', { default: 'false', environment: false }),
  key('enable_metrics_api', boolean, 'Open the metrics listener.', { default: 'true' }),
  key('metrics_mode', choice('log', 'prometheus', 'legacy'), "Where metrics go. TorchServe's default was `log`.", {
    default: 'prometheus',
  }),
  key('metrics_config', path, 'YAML file that names the metrics.', { defaultDoc: 'built in' }),
  key(
    'model_metrics_auto_detect',
    boolean,
    "Export metrics of handlers that the metrics file does not name. TorchServe's default was `false`.",
    { default: 'true' },
  ),
  key('max_handler_metrics', integer(0, 100_000), 'Metrics that the handlers of one model may define; more are refused.', {
    default: '200',
    from: 'onnxserve',
  }),
  key(
    'max_handler_metric_series',
    integer(0, 1_000_000),
    'Series of all its metrics that one model may have; more are refused.',
    {
      default: '1000',
      from: 'onnxserve',
    },
  ),
  key('disable_system_metrics', boolean, 'Leave out CPU, memory and disk metrics.', { default: 'false' }),
  key(
    'system_metrics_cmd',
    text,
    'Program with arguments whose output replaces the CPU, memory, disk and GPU metrics; a file ending in `.py` is run by `python3`.',
  ),
  key('metric_time_interval', integer(1, maxSeconds), 'Period of the system metrics.', {
    default: '60',
    unit: 's',
    environment: false,
  }),
  key('cors_allowed_origin', text, 'Value of `Access-Control-Allow-Origin`.'),
  key('cors_allowed_methods', text, 'Value of `Access-Control-Allow-Methods`.'),
  key('cors_allowed_headers', text, 'Value of `Access-Control-Allow-Headers`.'),
  key('ts_header_key_sequence_id', text, 'Header, or gRPC metadata, that names the sequence of a request.', {
    default: 'ts_request_sequence_id',
  }),
  key('ts_header_key_sequence_start', text, 'Header that begins a sequence.', { default: 'ts_request_sequence_start' }),
  key('ts_header_key_sequence_end', text, 'Header that ends a sequence.', { default: 'ts_request_sequence_end' }),
  key('initial_worker_port', integer(0, maxInt), 'First worker id. Workers open no port here.', { default: '9000' }),
  key('blacklist_env_vars', { kind: 'regex' }, 'Environment variables whose whole name matches are hidden from workers.'),
  key('log_location', path, 'Folder of the log files; `LOG_LOCATION` replaces it.', { default: 'logs', from: 'onnxserve' }),
  key('metrics_location', path, 'Folder of the metrics logs; `METRICS_LOCATION` replaces it.', {
    defaultDoc: '`log_location`',
    from: 'onnxserve',
  }),
  key('log_level', choice('debug', 'info', 'warn', 'error', 'silent'), 'The least important lines to log.', {
    default: 'info',
    from: 'onnxserve',
  }),
  key(
    'access_log_level',
    choice('debug', 'info', 'warn', 'error', 'silent'),
    'Level of the lines of requests, which are `info`.',
    {
      defaultDoc: '`log_level`',
      from: 'onnxserve',
    },
  ),
  key('model_log_level', choice('debug', 'info', 'warn', 'error', 'silent'), 'Level of what workers and handlers say.', {
    defaultDoc: '`log_level`',
    from: 'onnxserve',
  }),
  key('access_log_probes', boolean, 'Log probes that succeed (`/ping`, health, `/metrics`) as other requests, not at `debug`.', {
    default: 'false',
    from: 'onnxserve',
  }),
  key('log_format', choice('torchserve', 'json'), "TorchServe's line format, or one JSON object a line.", {
    default: 'torchserve',
    from: 'onnxserve',
  }),
  key('log_stdout', boolean, 'Write the log to the console besides the files.', { default: 'true', from: 'onnxserve' }),
  key(
    'log_max_size',
    integer(0, Number.MAX_SAFE_INTEGER),
    'Size at which a log file is begun anew, as on each new day. 0: never, another program does it.',
    {
      default: '104857600',
      unit: 'bytes',
      from: 'onnxserve',
    },
  ),
  key('log_max_files', integer(0, 100_000), 'Old files that are kept of each log.', { default: '10', from: 'onnxserve' }),
  key('temp_directory', path, 'Where archives are unpacked and sockets live.', {
    defaultDoc: "`TMPDIR`, else the system's",
    from: 'onnxserve',
  }),
  key('snapshot_max_files', integer(1, 100_000), 'Snapshots kept, the newest; see `--no-config-snapshots`.', {
    default: '20',
    unit: 'files',
    from: 'onnxserve',
  }),
  key('keep_alive_timeout', integer(0, maxSeconds), 'How long an idle connection stays open. 0: for ever.', {
    default: '75',
    unit: 's',
    from: 'onnxserve',
  }),
  key('shutdown_grace', integer(0, maxSeconds), 'How long a stopping server still accepts requests while it reports not ready.', {
    default: '0',
    unit: 's',
    from: 'onnxserve',
  }),
  key('shutdown_timeout', integer(1, maxSeconds), 'How long a stopping server waits for the requests it has accepted.', {
    default: '30',
    unit: 's',
    from: 'onnxserve',
  }),
];

/** Every key of `config.properties` that this server knows. */
export const serverKeys: readonly KeySpec[] = [...usedKeys, ...securityKeys, ...grpcKeys, ...unusedKeys];

const byName = new Map(serverKeys.map((spec) => [spec.name, spec]));

export function findKey(name: string): KeySpec | undefined {
  return byName.get(name);
}

/** `TS_JOB_QUEUE_SIZE` of `job_queue_size`. */
export function environmentName(name: string): string {
  return name.startsWith('ts_') ? name.toUpperCase() : `TS_${name.toUpperCase()}`;
}
