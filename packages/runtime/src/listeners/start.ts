import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { ListenAddress, ServerConfig } from '../config/server-config.js';
import type { LogLevels } from '../domain/log-levels.js';
import { ByteBudget } from '../admission/byte-budget.js';
import type { TokenService } from '../domain/authorization.js';
import type { InferenceService } from '../domain/request.js';
import type { ManagementService } from '../serving/management-service.js';
import type { Readiness } from '../serving/readiness.js';
import type { WorkflowService } from '../serving/workflows/workflow-service.js';
import { corsHeaders } from './cors.js';
import { descriptionHandler } from './description.js';
import { dispatcher, type Part, type Whereabouts } from './dispatcher.js';
import type { ExchangeSettings, ListenerLog, ListenerName } from './exchange.js';
import { createHttpServer, defaultLimits, type HttpLimits } from './http-server.js';
import { inferenceHandler } from './inference-listener.js';
import { listen } from './listen.js';
import { managementHandler } from './management-listener.js';
import type { MetricsEndpoint } from './metrics-endpoint.js';
import { metricsHandler } from './metrics-listener.js';
import type { TlsIdentity } from './tls-identity.js';

export interface ListenersOptions {
  readonly config: ServerConfig;
  readonly inference: InferenceService;
  readonly management: ManagementService;
  readonly workflows: WorkflowService;
  readonly metrics: MetricsEndpoint;
  readonly readiness: () => Readiness;
  readonly version: string;
  readonly log?: ListenerLog;
  readonly logLevels?: LogLevels;
  readonly limits?: Partial<HttpLimits>;
  readonly tokens?: TokenService | undefined;
  /** For the listeners whose address is https. */
  readonly tls?: TlsIdentity | undefined;
}

export interface Listeners {
  /** Where each listener really is; metrics is undefined when the metrics API is off. */
  readonly addresses: Readonly<Record<'inference' | 'management', string>> & { readonly metrics: string | undefined };
  /** Opens those that `listen_after_loading` left closed. @throws {ListenError} */
  openRest(): Promise<void>;
  /** Readiness turns false, answers close their connections. */
  drain(): void;
  /** Ends the connections that wait for their next request. */
  closeIdle(): void;
  /**
   * Stops listening and waits for what is in flight, at most so many milliseconds.
   * @returns requests that were cut then
   */
  close(timeoutMs: number): Promise<number>;
}

/** How often a listener that closes looks whether its requests are over. */
const LOOK_MS = 50;

const keys: Record<ListenerName, string> = {
  inference: 'inference_address',
  management: 'management_address',
  metrics: 'metrics_address',
};

/**
 * Opens the inference, management and metrics listeners; those of equal address share one.
 * @throws {Error} naming the address and the setting when one cannot be opened; none stays open then
 */
export async function startListeners(options: ListenersOptions): Promise<Listeners> {
  const { config } = options;
  const settings: ExchangeSettings = {
    cors: corsHeaders(config),
    maxRequestSize: config.maxRequestSize,
    log: options.log,
    tokens: options.tokens,
    bodies: new ByteBudget(config.maxBodyMemory),
    queueFullStatus: config.queueFullStatus,
    writeTimeout: config.clientWriteTimeout * 1000,
    draining: false,
    open: 0,
  };
  const limits = { ...defaultLimits, ...options.limits };
  const all: Part[] = [
    { name: 'inference', handle: inferenceHandler(options) },
    { name: 'management', handle: managementHandler(options) },
    { name: 'metrics', handle: metricsHandler(options.metrics) },
  ];
  const parts = config.enableMetricsApi ? all : all.filter((part) => part.name !== 'metrics');
  const servers: FastifyInstance[] = [];
  const where: Whereabouts = {};
  const rest: Array<() => Promise<void>> = [];
  try {
    for (const group of groupByAddress(parts, config)) {
      const names = group.map((part) => part.name);
      const isSecure = addressOf(names[0] ?? 'inference', config).protocol === 'https';
      const describe: Part = { name: names[0] ?? 'inference', handle: descriptionHandler(names) };
      const server = createHttpServer({
        dispatch: dispatcher([describe, ...group], settings, where),
        keepAliveTimeout: config.keepAliveTimeout * 1000,
        maxRequestSize: config.maxRequestSize,
        limits,
        tls: isSecure ? options.tls : undefined,
      });
      servers.push(server);
      const [first] = names;
      if (first === undefined) continue;
      const open = async () => {
        const address = await listen(server, addressOf(first, config), keys[first]);
        for (const name of names) where[name] = address;
      };
      if (config.listenAfterLoading && names.includes('inference')) rest.push(open);
      else await open();
    }
  } catch (error) {
    await Promise.all(servers.map((server) => server.close()));
    throw error;
  }
  const drain = () => {
    settings.draining = true;
  };
  return {
    get addresses() {
      return { inference: where.inference ?? '', management: where.management ?? '', metrics: where.metrics };
    },
    async openRest() {
      for (const open of rest.splice(0)) await open();
    },
    drain,
    closeIdle() {
      for (const server of servers) server.server.closeIdleConnections();
    },
    async close(timeoutMs) {
      drain();
      const closed = Promise.all(servers.map((server) => server.close()));
      const until = performance.now() + timeoutMs;
      while (settings.open > 0 && performance.now() < until) await pause(LOOK_MS);
      const cut = settings.open;
      // What is left has no request: a head that never came, or a connection that was opened and not used.
      const rest = setTimeout(() => {
        for (const server of servers) server.server.closeAllConnections();
      }, LOOK_MS);
      await closed;
      clearTimeout(rest);
      return cut;
    },
  };
}

function groupByAddress(parts: readonly Part[], config: ServerConfig): Part[][] {
  const groups = new Map<string, Part[]>();
  for (const part of parts) {
    const address = addressOf(part.name, config);
    // Port 0 asks for any free port, so each gets its own.
    const key = address.path ?? (address.port === 0 ? `${part.name}:0` : `${address.protocol}://${address.host}:${address.port}`);
    const group = groups.get(key);
    if (group) group.push(part);
    else groups.set(key, [part]);
  }
  return [...groups.values()];
}

function addressOf(name: ListenerName, config: ServerConfig): ListenAddress {
  return { inference: config.inferenceAddress, management: config.managementAddress, metrics: config.metricsAddress }[name];
}
