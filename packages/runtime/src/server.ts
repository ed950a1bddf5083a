import { hostname } from 'node:os';
import { availableCpus } from './config/cpu.js';
import type { ServerConfig } from './config/server-config.js';
import { resolveWorkersDefault } from './config/workers-default.js';
import { type Listeners, startListeners } from './listeners/start.js';
import { createMetrics } from './metrics/create-metrics.js';
import { cleanStaleTemp } from './registry/temp-space.js';
import { ModelServer } from './serving/model-server.js';
import type { ServedModel } from './serving/served-model.js';
import { loadStartupModels, type StartupProgress } from './serving/startup.js';

export interface RunningServer {
  readonly addresses: Listeners['addresses'];
  readonly models: ModelServer;
  /** Resolves when every start-up model is ready, or has failed. @returns the failures as sentences */
  readonly loaded: Promise<readonly string[]>;
  /** Drains: readiness turns false, accepted requests finish, workers end. */
  close(): Promise<void>;
}

export interface ServerOptions {
  readonly config: ServerConfig;
  readonly version: string;
  /** Told of each start-up model when it is ready or has failed. */
  readonly progress?: (event: StartupProgress) => void;
}

/** Wires a server together and starts it. @throws {Error} when a listener cannot be opened or the model store cannot be read */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config, version } = options;
  await cleanStaleTemp(config.tempDirectory);
  const metrics = createMetrics({ config, hostname: hostname(), gauges: () => gauges(models.models) });
  const { logger } = metrics;
  const cpus = availableCpus();
  const models: ModelServer = new ModelServer({
    config,
    cpus,
    archives: {
      modelStore: config.modelStore,
      tempDirectory: config.tempDirectory,
      allowedUrls: config.allowedUrls,
      limits: { maxArchiveSize: config.maxArchiveSize, maxArchiveRatio: config.maxArchiveRatio },
    },
    warn: (sentence) => logger.warn(sentence),
  });
  let phase: 'loading' | 'serving' | 'draining' = 'loading';
  let listeners: Listeners;
  try {
    listeners = await startListeners({
      config,
      inference: models,
      management: models,
      metrics: metrics.endpoint,
      version,
      log: logger,
      readiness: () => {
        const problems = phase === 'loading' ? ['start-up models are loading', ...models.notReady()] : models.notReady();
        return { live: true, ready: problems.length === 0, problems };
      },
    });
  } catch (error) {
    await metrics.close();
    throw error;
  }
  logger.info({ ...listeners.addresses }, 'listening');

  const loaded = loadStartupModels(models, config, resolveWorkersDefault(config, cpus), options.progress).then((failures) => {
    for (const failure of failures) logger.error(failure);
    if (phase === 'loading') phase = 'serving';
    if (failures.length === 0) logger.info(`ready: ${models.models.length} model(s) loaded`);
    return failures;
  });
  let closing: Promise<void> | undefined;
  const close = async () => {
    phase = 'draining';
    logger.info('shutting down: accepted requests finish, new ones are refused');
    listeners.drain();
    if (config.shutdownGrace > 0) await new Promise((resolve) => setTimeout(resolve, config.shutdownGrace * 1000));
    await models.close(config.shutdownTimeout * 1000);
    await listeners.close();
    logger.info('stopped');
    await metrics.close();
  };
  return { addresses: listeners.addresses, models, loaded, close: () => (closing ??= close()) };
}

function* gauges(models: readonly ServedModel[]) {
  for (const { name, version, batcher, pool } of models) {
    const workers: Record<string, number> = { ready: 0, starting: 0, waiting: 0, 'gave-up': 0, stopping: 0, stopped: 0 };
    for (const worker of pool.workers) workers[worker.state.at] = (workers[worker.state.at] ?? 0) + 1;
    yield {
      model: name,
      version,
      queueDepth: batcher.queued,
      oldestAgeSeconds: batcher.oldestAge,
      inFlight: batcher.pending - batcher.queued,
      workers,
    };
  }
}
