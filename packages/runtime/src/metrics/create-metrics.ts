import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { ServerConfig } from '../config/server-config.js';
import type { LogLevels } from '../domain/log-levels.js';
import { logAccess } from './access-log.js';
import { Endpoint, type Scrape } from './endpoint.js';
import { watchEventLoop } from './event-loop.js';
import type { GaugeSource } from './gauge-source.js';
import { HandlerMetricsRecorder } from './handler-metrics.js';
import { LogFiles } from './log-files.js';
import { MetricLog } from './metric-log.js';
import { noMetricsConfig, readMetricsConfig } from './metrics-config.js';
import { families } from './names.js';
import { ProcessMetrics } from './process-metrics.js';
import { Recorder } from './recorder.js';
import { MetricRegistry } from './registry.js';
import { createLogger } from './server-log.js';
import { SystemCommand } from './system-command.js';
import { SystemMetrics } from './system-metrics.js';
import { WorkerLogWriter } from './worker-log.js';

export type MetricsSettings = Pick<
  ServerConfig,
  | 'enableMetricsApi'
  | 'metricsMode'
  | 'metricsConfig'
  | 'modelMetricsAutoDetect'
  | 'maxHandlerMetrics'
  | 'maxHandlerMetricSeries'
  | 'disableSystemMetrics'
  | 'systemMetricsCmd'
  | 'modelStore'
  | 'tempDirectory'
  | 'metricTimeInterval'
  | 'numberOfGpu'
  | 'logLocation'
  | 'metricsLocation'
  | 'logFormat'
  | 'logToStdout'
  | 'logMaxSize'
  | 'logMaxFiles'
>;

export interface MetricsOptions {
  readonly config: MetricsSettings;
  readonly hostname: string;
  readonly gauges: GaugeSource;
  readonly levels: LogLevels;
  /** Where console output goes. */
  readonly stdout?: (text: string) => void;
}

export interface Metrics {
  readonly endpoint: {
    /** @returns undefined when the metrics API is off */
    scrape(accept: string | undefined, names: readonly string[] | undefined): Promise<Scrape | undefined>;
  };
  readonly logger: Logger;
  /** Opens the log files anew, after somebody else moved them away. */
  reopenLogs(): void;
  /** Ends all subscriptions and timers and writes what is left. */
  close(): Promise<void>;
}

/**
 * Metrics and logs of one server, fed by what the core publishes.
 * @throws {Error} when the metrics_config file cannot be read or is wrong
 */
export function createMetrics({ config, hostname, gauges, levels, stdout }: MetricsOptions): Metrics {
  const declared = config.metricsConfig === undefined ? noMetricsConfig : readMetricsConfig(config.metricsConfig);
  const { logFormat: format } = config;
  const files = new LogFiles({
    logLocation: config.logLocation,
    metricsLocation: config.metricsMode === 'prometheus' ? undefined : config.metricsLocation,
    toStdout: config.logToStdout,
    maxBytes: config.logMaxSize,
    keep: config.logMaxFiles,
    stdout,
    warn: (sentence) => logger.warn(sentence),
  });
  const logger: Logger = createLogger({ files, level: levels.settings.server, format });
  const closing: Array<() => void> = [levels.watch(() => (logger.level = levels.settings.server))];
  const warn = (sentence: string) => logger.warn(sentence);
  const registry = new MetricRegistry(declared.buckets);
  registry.built.buildInfo.series(ownVersion(), process.version).set(1);

  const recorder = new Recorder(registry, hostname, (model) => handlerMetrics.forget(model));
  const handlerMetrics = new HandlerMetricsRecorder({
    registry,
    hostname,
    config: declared,
    autoDetect: config.modelMetricsAutoDetect,
    maxMetrics: config.maxHandlerMetrics,
    maxSeries: config.maxHandlerMetricSeries,
    knows: (model, version) => recorder.knows(model, version),
    warn,
  });
  const processMetrics = new ProcessMetrics();
  closing.push(
    () => recorder.close(),
    () => handlerMetrics.close(),
    () => processMetrics.close(),
  );
  closing.push(watchEventLoop(registry.built.eventLoopDelay.series()));

  const metricLog = config.metricsMode === 'prometheus' ? undefined : new MetricLog({ files, hostname, format });
  if (metricLog !== undefined) closing.push(() => metricLog.close());
  if (!config.disableSystemMetrics) {
    const { systemMetricsCmd, modelStore, tempDirectory, logLocation } = config;
    const command =
      systemMetricsCmd === undefined
        ? undefined
        : new SystemCommand({
            command: systemMetricsCmd,
            registry,
            hostname,
            config: declared,
            warn,
            collected: ({ name, unit, value, dimensions }) =>
              metricLog?.host({ name, unit }, value, dimensions.map((pair) => pair.join(':')).join(',')),
          });
    const system = new SystemMetrics({
      registry,
      hostname,
      interval: config.metricTimeInterval,
      numberOfGpu: config.numberOfGpu,
      folders: {
        ...(modelStore === undefined ? {} : { model_store: modelStore }),
        temp_directory: tempDirectory,
        log_location: logLocation,
      },
      warn,
      command: command === undefined ? undefined : (signal) => command.collect(signal),
      collected: (family, value, device) =>
        metricLog?.host(families[family], value, device === undefined ? 'Level:Host' : `Level:Host,DeviceId:${device}`),
    });
    system.start();
    closing.push(() => system.close());
  }

  closing.push(logAccess({ files, levels, format }));
  const workerLog = new WorkerLogWriter({
    files,
    levels,
    format,
    dropped: (model, version, bytes) => recorder.logDropped(model, version, bytes),
  });
  closing.push(() => workerLog.close());

  return {
    endpoint: new Endpoint({
      enabled: config.enableMetricsApi,
      mode: config.metricsMode,
      registry,
      process: processMetrics,
      gauges,
      listed: declared.server === undefined ? undefined : new Set(declared.server.keys()),
    }),
    logger,
    reopenLogs: () => files.reopen(),
    async close() {
      for (const end of closing) end();
      await files.close();
    },
  };
}

function ownVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version;
}
