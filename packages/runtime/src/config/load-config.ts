import { accessSync, constants, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { resolve } from 'node:path';
import { envelopes } from '../domain/envelope.js';
import { type ConfigInput, collectSources, type SourcedText } from './config-sources.js';
import { loadFailurePolicies } from '../domain/load-failure.js';
import { logLevels } from '../domain/log-levels.js';
import { ConfigReader } from './config-reader.js';
import { readGrpcListen } from './grpc-listen.js';
import { availableMemory } from './memory.js';
import { findKey } from './keys.js';
import { isSelfContained, type LoadModels, parseLoadModels } from './load-models.js';
import type { LoadedConfig, ServerConfig } from './server-config.js';
import { managementIsLocal, readTokens } from './token-config.js';
import { entriesOf, matchModels, readSnapshot, readStartupModels, type StartupModels } from './startup-models.js';

export type { CommandLineFlags, ConfigInput } from './config-sources.js';

/**
 * The configuration of a server from file, command line and environment. Never throws: mistakes are in `problems`, and a
 * value that could not be read is replaced by its default. A server must not start with a problem of severity `error`.
 */
export function loadConfig(input: ConfigInput): LoadedConfig {
  const { argv, env, cwd } = input;
  const sources = collectSources(input);
  const reader = new ConfigReader(sources.values, cwd, sources.problems);
  reader.checkKeys();
  const modelStore = reader.path('model_store');
  const logLocation = reader.path('log_location') ?? resolve(cwd, 'logs');
  const maxWorkersLimit = reader.number('max_workers_limit');
  const { loadModels, models, modelsFromSnapshot } = readModels(reader, maxWorkersLimit);
  const managementAddress = reader.address('management_address', 'management');
  const tempDirectory = reader.path('temp_directory') ?? temporaryFolder(reader, env, cwd);
  const grpcManagement = readGrpcListen(reader, 'management');
  const config: ServerConfig = {
    inferenceAddress: reader.address('inference_address', 'inference'),
    managementAddress,
    metricsAddress: reader.address('metrics_address', 'metrics'),
    grpcInference: readGrpcListen(reader, 'inference'),
    grpcManagement,
    enableGrpcSsl: reader.boolean('enable_grpc_ssl'),
    tls: {
      privateKeyFile: reader.path('private_key_file'),
      certificateFile: reader.path('certificate_file'),
      keystore: reader.path('keystore'),
      keystorePass: reader.text('keystore_pass') ?? '',
      keystoreType: /^jks$/i.test(reader.choice('keystore_type', ['PKCS12', 'pkcs12', 'JKS', 'jks'])) ? 'JKS' : 'PKCS12',
    },
    modelStore,
    workflowStore: reader.path('workflow_store') ?? modelStore,
    loadModels,
    models,
    modelsFromSnapshot,
    defaultWorkersPerModel: reader.number('default_workers_per_model'),
    jobQueueSize: reader.number('job_queue_size'),
    defaultResponseTimeout: reader.number('default_response_timeout'),
    defaultStartupTimeout: reader.number('default_startup_timeout'),
    onLoadFailure: reader.choice('on_load_failure', loadFailurePolicies),
    listenAfterLoading: reader.boolean('listen_after_loading'),
    unregisterModelTimeout: reader.number('unregister_model_timeout'),
    numberOfGpu: reader.optionalNumber('number_of_gpu'),
    maxRequestSize: reader.number('max_request_size'),
    maxResponseSize: reader.number('max_response_size'),
    maxArchiveSize: reader.number('max_archive_size'),
    maxArchiveRatio: reader.number('max_archive_ratio'),
    maxWorkersLimit,
    limitMaxImagePixels: reader.boolean('limit_max_image_pixels'),
    defaultServiceHandler: reader.text('default_service_handler'),
    serviceEnvelope: reader.optionalChoice('service_envelope', envelopes),
    allowedUrls: reader.patterns('allowed_urls'),
    enableMetricsApi: reader.boolean('enable_metrics_api'),
    metricsMode: reader.choice('metrics_mode', ['log', 'prometheus', 'legacy']),
    metricsConfig: reader.path('metrics_config'),
    modelMetricsAutoDetect: reader.boolean('model_metrics_auto_detect'),
    maxHandlerMetrics: reader.number('max_handler_metrics'),
    maxHandlerMetricSeries: reader.number('max_handler_metric_series'),
    disableSystemMetrics: reader.boolean('disable_system_metrics'),
    systemMetricsCmd: reader.text('system_metrics_cmd'),
    metricTimeInterval: reader.number('metric_time_interval'),
    corsAllowedOrigin: reader.text('cors_allowed_origin'),
    corsAllowedMethods: reader.text('cors_allowed_methods'),
    corsAllowedHeaders: reader.text('cors_allowed_headers'),
    sequenceKeys: {
      id: headerName(reader, 'ts_header_key_sequence_id'),
      start: headerName(reader, 'ts_header_key_sequence_start'),
      end: headerName(reader, 'ts_header_key_sequence_end'),
    },
    initialWorkerPort: reader.number('initial_worker_port'),
    tokens: readTokens(reader, env, cwd, tempDirectory, { management: managementAddress, grpcManagement }),
    allowPrivateUrls: reader.isSet('allow_private_urls')
      ? reader.boolean('allow_private_urls')
      : managementIsLocal({ management: managementAddress, grpcManagement }),
    enableModelApi: reader.boolean('enable_model_api'),
    logLocation,
    metricsLocation: reader.path('metrics_location') ?? logLocation,
    logLevel: reader.choice('log_level', [...logLevels]),
    accessLogLevel: reader.choice(reader.isSet('access_log_level') ? 'access_log_level' : 'log_level', [...logLevels]),
    modelLogLevel: reader.choice(reader.isSet('model_log_level') ? 'model_log_level' : 'log_level', [...logLevels]),
    accessLogProbes: reader.boolean('access_log_probes'),
    logFormat: reader.choice('log_format', ['torchserve', 'json']),
    logToStdout: reader.boolean('log_stdout'),
    logMaxSize: reader.number('log_max_size'),
    logMaxFiles: reader.number('log_max_files'),
    tempDirectory,
    keepAliveTimeout: reader.number('keep_alive_timeout'),
    shutdownGrace: reader.number('shutdown_grace'),
    shutdownTimeout: reader.number('shutdown_timeout'),
    blacklistEnvVars: reader.regex('blacklist_env_vars'),
    snapshotMaxFiles: reader.number('snapshot_max_files'),
    maxBodyMemory: reader.optionalNumber('max_body_memory') ?? Math.floor(availableMemory() / 4),
    queueFullStatus: reader.choice('queue_full_status', ['503', '429']) === '429' ? 429 : 503,
    clientWriteTimeout: reader.number('client_write_timeout'),
  };
  reader.boolean('enable_envvars_config');
  reader.boolean('use_env_allowed_urls');
  checkModelStore(reader, config);
  checkTls(reader, config);
  reader.show('model_store', config.modelStore ?? '');
  reader.show('workflow_store', config.workflowStore ?? '');
  reader.show('load_models', showEntries(config.loadModels));
  reader.show('log_location', config.logLocation);
  reader.show('access_log_level', config.accessLogLevel);
  reader.show('model_log_level', config.modelLogLevel);
  reader.show('metrics_location', config.metricsLocation);
  reader.show('temp_directory', config.tempDirectory);
  reader.show('max_body_memory', String(config.maxBodyMemory));
  reader.show('token_key_file', config.tokens.keyFile);
  reader.show('allow_private_urls', String(config.allowPrivateUrls));
  if (!reader.isSet('number_of_gpu')) reader.show('number_of_gpu', 'all');
  if (!reader.isSet('disable_token_authorization')) {
    const asked = [...config.tokens.required].join(' and ');
    reader.show('disable_token_authorization', asked === '' ? 'not set: no tokens' : `not set: tokens for ${asked}`);
  }
  if (!reader.isSet('load_models') && config.loadModels.length > 0)
    reader.origins.set('load_models', reader.origin(modelsFromSnapshot ? 'model_snapshot' : 'models'));
  return {
    config,
    origins: reader.origins,
    problems: reader.problems,
    texts: reader.texts,
    snapshotValues: snapshotValues(sources.values, config, argv.tsConfig ?? env['TS_CONFIG_FILE']),
  };
}

/** Keys of TorchServe that say how a snapshot came about. */
const ownKeys = new Set(['model_snapshot', 'version', 'tsConfigFile', 'python']);

function snapshotValues(
  values: ReadonlyMap<string, SourcedText>,
  { modelStore, workflowStore }: ServerConfig,
  tsConfigFile: string | undefined,
): Map<string, string> {
  // What --models asks for holds for one run; the models that came of it are in the snapshot anyway.
  const once = (key: string, { origin }: SourcedText) => key === 'load_models' && origin.source === 'command line';
  const kept = [...values].filter(([key, value]) => !ownKeys.has(key) && findKey(key)?.secret !== true && !once(key, value));
  return new Map([
    ...kept.map(([key, { text, original }]) => [key, original ?? text] as const),
    ...(modelStore === undefined ? [] : [['model_store', modelStore] as const]),
    ...(workflowStore === undefined ? [] : [['workflow_store', workflowStore] as const]),
    ...(tsConfigFile === undefined ? [] : [['tsConfigFile', tsConfigFile] as const]),
  ]);
}

interface ModelsToLoad {
  readonly loadModels: LoadModels;
  readonly models: StartupModels;
  readonly modelsFromSnapshot: boolean;
}

function readModels(reader: ConfigReader, maxWorkersLimit: number): ModelsToLoad {
  const onCommandLine = reader.origin('load_models').source === 'command line';
  const listed = reader.isSet('load_models') ? parseLoadModels([reader.raw('load_models')], onCommandLine) : undefined;
  const snapshot = reader.text('model_snapshot');
  const json = reader.text('models');
  const models =
    json === undefined ? {} : readStartupModels('models', json, { leastWorkers: 1, maxWorkersLimit }, reader.reportAt('models'));
  if (snapshot !== undefined) {
    if (listed === undefined || !onCommandLine) {
      if (listed !== undefined) reader.report('info', 'load_models', 'load_models is ignored, model_snapshot says what to load');
      const restored = readSnapshot(snapshot, maxWorkersLimit, reader.reportAt('model_snapshot'));
      return { loadModels: entriesOf(restored), models: { ...models, ...restored }, modelsFromSnapshot: true };
    }
    reader.report('info', 'model_snapshot', 'model_snapshot is ignored, --models says what to load');
  }
  if (listed !== undefined)
    return { loadModels: matchModels(listed, models, reader.reportAt('models')), models, modelsFromSnapshot: false };
  const entries = entriesOf(models);
  if (entries.length > 0) {
    const what = entries.map((entry) => `${entry.name}=${entry.url}`).join(', ');
    reader.report('info', 'models', `load_models is not set, so every model of models is loaded: ${what}`);
  }
  return { loadModels: entries, models, modelsFromSnapshot: false };
}

function checkModelStore(reader: ConfigReader, config: ServerConfig): void {
  const how = 'set model_store in the configuration file or give --model-store';
  const { loadModels, modelStore } = config;
  if (modelStore === undefined) {
    const missing = loadModels === 'all' ? true : loadModels.length === 0 || !loadModels.every(isSelfContained);
    if (missing) reader.report('error', 'model_store', `No model store: ${how}`);
    return;
  }
  try {
    if (!statSync(modelStore).isDirectory())
      reader.report('error', 'model_store', `model_store ${modelStore} is no folder; ${how}`);
    else accessSync(modelStore, constants.R_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'does not exist; create it, or' : `cannot be read (${message});`;
    reader.report('error', 'model_store', `model_store ${modelStore} ${why} ${how}`);
  }
}

/** A TLS listener needs something to prove itself with; that its files are sound is found out when they are read. */
function checkTls(reader: ConfigReader, config: ServerConfig): void {
  const { tls } = config;
  const wants = [
    ['inference_address', config.inferenceAddress.protocol === 'https'],
    ['management_address', config.managementAddress.protocol === 'https'],
    ['metrics_address', config.metricsAddress.protocol === 'https'],
    ['enable_grpc_ssl', config.enableGrpcSsl],
  ] as const;
  const first = wants.find(([, wanted]) => wanted)?.[0];
  if (first === undefined) return;
  if (tls.keystore !== undefined) return;
  if (tls.certificateFile !== undefined && tls.privateKeyFile !== undefined) return;
  const missing = (['certificate_file', 'private_key_file'] as const).filter((key) => !reader.isSet(key)).join(' and ');
  reader.report('error', first, `${first} asks for TLS; set ${missing} (PEM files), or keystore (PKCS12)`);
}

function temporaryFolder(reader: ConfigReader, env: NodeJS.ProcessEnv, cwd: string): string {
  const variable = ['TMPDIR', 'TMP', 'TEMP'].find((name) => (env[name] ?? '') !== '');
  if (variable === undefined) return tmpdir();
  reader.origins.set('temp_directory', { source: 'environment', where: variable });
  return resolve(cwd, env[variable] ?? '');
}

function showEntries(entries: LoadModels): string {
  if (entries === 'all') return entries;
  return entries.map(({ name, url }) => (name === undefined ? url : `${name}=${url}`)).join(', ');
}

/** Header names are compared in lower case. */
function headerName(reader: ConfigReader, key: string): string {
  const name = (reader.text(key) ?? '').trim().toLowerCase();
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) reader.report('error', key, `"${name}" cannot be the name of a header`);
  return name;
}
