import { hostname } from 'node:os';
import { availableCpus } from './config/cpu.js';
import { snapshotFolder } from './config/snapshot-files.js';
import type { ServerConfig } from './config/server-config.js';
import { TlsIdentity } from './listeners/tls-identity.js';
import type { Tokens } from './admission/tokens.js';
import { resolveWorkersDefault } from './config/workers-default.js';
import { onFirstReady } from './listeners/first-ready.js';
import { type GrpcListeners, startGrpcListeners } from './listeners/grpc/start.js';
import { LogLevels } from './domain/log-levels.js';
import { type Listeners, startListeners } from './listeners/start.js';
import { readTls } from './listeners/tls.js';
import { TlsWatch } from './listeners/tls-watch.js';
import { describeTokens, makeTokens } from './admission/make-tokens.js';
import { createMetrics } from './metrics/create-metrics.js';
import type { ArchiveEnvironment } from './registry/archive-environment.js';
import { cleanStaleTemp } from './registry/temp-space.js';
import { LoopWatch } from './serving/loop-watch.js';
import { ModelServer } from './serving/model-server.js';
import type { ServedModel } from './serving/served-model.js';
import { workerStates } from './workers/worker.js';
import { Workflows } from './serving/workflows/workflows.js';
import { Snapshots } from './serving/snapshots.js';
import type { Phase, Readiness } from './serving/readiness.js';
import { shutDown } from './serving/shutdown.js';
import { loadStartupModels, type StartupProgress } from './serving/startup.js';

export interface RunningServer {
  readonly addresses: Listeners['addresses'] & GrpcListeners['addresses'];
  readonly models: ModelServer;
  /** Resolves when every start-up model is ready, or has failed. @returns the failures as sentences */
  readonly loaded: Promise<readonly string[]>;
  /** Opens the log files anew, after somebody else moved them away. */
  reopenLogs(): void;
  readiness(): Readiness;
  /**
   * Drains: readiness turns false, accepted requests finish, workers end.
   * @returns what did not finish within `shutdown_timeout`, a phrase each
   */
  close(): Promise<readonly string[]>;
}

export interface ServerOptions {
  readonly config: ServerConfig;
  readonly version: string;
  /** Keys that snapshots keep; undefined: none are written. */
  readonly snapshotValues?: ReadonlyMap<string, string> | undefined;
  /** Told of each start-up model when it is ready or has failed. */
  readonly progress?: (event: StartupProgress) => void;
  /** Told why the server shall end by itself, with an exit code that makes a supervisor start it again. */
  readonly fatal?: (reason: string) => void;
}

/** Wires a server together and starts it. @throws {Error} when a listener cannot be opened or the model store cannot be read */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config, version } = options;
  await cleanStaleTemp(config.tempDirectory);
  const levels = new LogLevels({
    server: config.logLevel,
    access: config.accessLogLevel,
    model: config.modelLogLevel,
    accessProbes: config.accessLogProbes,
  });
  const metrics = createMetrics({ config, hostname: hostname(), gauges: () => gauges(models.models), levels });
  const { logger } = metrics;
  const cpus = availableCpus();
  const archives: ArchiveEnvironment = {
    modelStore: config.modelStore,
    tempDirectory: config.tempDirectory,
    allowedUrls: config.allowedUrls,
    limits: { maxArchiveSize: config.maxArchiveSize, maxArchiveRatio: config.maxArchiveRatio },
    allowPrivate: config.allowPrivateUrls,
  };
  const models: ModelServer = new ModelServer({
    config,
    cpus,
    logLevels: levels,
    archives,
    warn: (sentence) => logger.warn(sentence),
    fatal: (reason) => {
      logger.error(`${reason}; the server ends, as onLoadFailure or on_load_failure says`);
      options.fatal?.(reason);
    },
  });
  const workflows = new Workflows({
    models,
    archives,
    workflowStore: config.workflowStore ?? config.modelStore,
    maxResponseSize: config.maxResponseSize,
    unregisterTimeout: config.unregisterModelTimeout * 1000,
  });
  let phase: Phase = 'loading';
  const loop = new LoopWatch();
  const readiness = () => models.serverReadiness(phase, loop.blocked());
  let listeners: Listeners | undefined;
  let tokens: Tokens | undefined;
  let tls: TlsIdentity | undefined;
  let grpcListeners: GrpcListeners | undefined;
  try {
    tokens = makeTokens(config.tokens, (sentence) => logger.warn(sentence));
    tls = usesTls(config) ? new TlsIdentity(await readTls(config.tls)) : undefined;
    listeners = await startListeners({
      config,
      inference: models,
      management: models,
      workflows,
      metrics: metrics.endpoint,
      version,
      log: logger,
      logLevels: levels,
      readiness,
      tokens,
      tls,
    });
    grpcListeners = await startGrpcListeners({
      config,
      inference: models,
      management: models,
      readiness,
      version,
      sequenceKeys: config.sequenceKeys,
      ...(config.enableGrpcSsl ? { tls } : {}),
      ...(tokens === undefined ? {} : { authorizer: tokens }),
      log: logger,
    });
    // Not before the listeners are open: the keys in the file may be those of a server that runs already.
    tokens?.publish();
  } catch (error) {
    await Promise.all([listeners?.close(0), grpcListeners?.close(0)]);
    loop.close();
    await metrics.close();
    throw error;
  }
  const http = listeners;
  const grpc = grpcListeners;
  const addresses = () => ({ ...http.addresses, ...grpc.addresses });
  logger.info(addresses(), 'listening');
  if (tokens !== undefined) logger.info(describeTokens(config.tokens));
  const watch = tls === undefined ? undefined : new TlsWatch(config.tls, tls, logger);

  const { snapshotValues } = options;
  const snapshots =
    snapshotValues === undefined
      ? undefined
      : new Snapshots({
          folder: snapshotFolder(config.logLocation),
          keep: config.snapshotMaxFiles,
          config,
          values: snapshotValues,
          models,
          warn: (sentence) => logger.warn(sentence),
        });
  const openRest = async () => {
    await Promise.all([http.openRest(), grpc.openRest()]);
    logger.info(addresses(), 'listening');
  };
  let stopWaiting = () => undefined as void;
  /** Waits for it only when it can be now: a model that cannot be loaded may never make the server ready. */
  const openWhenReady = async () => {
    if (readiness().ready) return await openRest();
    const failed = (error: unknown) => options.fatal?.(error instanceof Error ? error.message : String(error));
    stopWaiting = onFirstReady(
      () => readiness().ready,
      () => void openRest().catch(failed),
    );
  };
  models.startup.running = true;
  const loaded = loadStartupModels(models, config, resolveWorkersDefault(config, cpus), options.progress).then(
    async (failures) => {
      models.startup.running = false;
      if (phase === 'loading') for (const failure of failures) logger.error(failure);
      if (phase === 'loading') {
        phase = 'serving';
        snapshots?.start();
      }
      grpc.readinessChanged();
      if (config.listenAfterLoading) await openWhenReady();
      if (failures.length === 0) logger.info(`ready: ${models.models.length} model(s) loaded`);
      return failures;
    },
  );
  let closing: Promise<readonly string[]> | undefined;
  const close = async () => {
    phase = 'draining';
    stopWaiting();
    logger.info('shutting down: accepted requests finish, new ones are refused');
    const cut = await shutDown({
      http,
      grpc,
      models,
      workflows,
      grace: config.shutdownGrace,
      timeout: config.shutdownTimeout,
      async before() {
        watch?.close();
        await snapshots?.close();
      },
    });
    if (cut.length > 0) logger.error(`shutdown_timeout of ${config.shutdownTimeout} s is over; cut: ${cut.join(', ')}`);
    logger.info('stopped');
    loop.close();
    await metrics.close();
    return cut;
  };
  return {
    get addresses() {
      return addresses();
    },
    models,
    loaded,
    readiness,
    reopenLogs: () => metrics.reopenLogs(),
    close: () => (closing ??= close()),
  };
}

function usesTls({
  inferenceAddress,
  managementAddress,
  metricsAddress,
  enableGrpcSsl,
  enableMetricsApi,
}: ServerConfig): boolean {
  const addresses = [inferenceAddress, managementAddress, ...(enableMetricsApi ? [metricsAddress] : [])];
  return enableGrpcSsl || addresses.some(({ protocol }) => protocol === 'https');
}

function* gauges(models: readonly ServedModel[]) {
  for (const { name, version, batcher, pool } of models) {
    const workers: Record<string, number> = Object.fromEntries([...workerStates, 'spare'].map((state) => [state, 0]));
    for (const { state, spare } of pool.workers) {
      const shown = spare && state.at === 'ready' ? 'spare' : state.at;
      workers[shown] = (workers[shown] ?? 0) + 1;
    }
    yield {
      model: name,
      version,
      queueDepth: batcher.queued,
      oldestAgeSeconds: batcher.oldestAge,
      inFlight: batcher.pending - batcher.queued,
      sequences: batcher.activeSequences,
      workers,
    };
  }
}
