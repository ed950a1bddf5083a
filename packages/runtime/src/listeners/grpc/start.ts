import { type ChannelOptions, logVerbosity, Server, setLogVerbosity } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import type { GrpcListen, ServerConfig } from '../../config/server-config.js';
import type { Authorizer, Scope } from '../../domain/authorization.js';
import { ServeError } from '../../domain/errors.js';
import type { InferenceService } from '../../domain/request.js';
import type { ManagementService } from '../../serving/management-service.js';
import type { Readiness } from '../../serving/readiness.js';
import type { ListenerLog } from '../exchange.js';
import type { TlsIdentity } from '../tls-identity.js';
import { bind } from './bind.js';
import { reflectable } from './descriptors.js';
import { definitions, serviceDefinition, serviceNames } from './definitions.js';
import { Health } from './health.js';
import { inferenceApi } from './inference-api.js';
import { interceptor, OpenCalls } from './interceptor.js';
import { managementApi } from './management-api.js';
import { openInferenceApi } from './open-inference-api.js';
import type { SequenceKeys } from '../../domain/sequence-keys.js';
import { SequenceStreams } from './sequence-streams.js';

export interface GrpcOptions {
  readonly config: ServerConfig;
  readonly inference: InferenceService;
  readonly management: ManagementService;
  readonly readiness: () => Readiness;
  readonly version: string;
  readonly sequenceKeys: SequenceKeys;
  readonly authorizer?: Authorizer;
  readonly tls?: TlsIdentity;
  readonly log?: ListenerLog;
}

export interface GrpcListeners {
  /** `127.0.0.1:7070` or `unix:/path`; equal when both share one listener. */
  readonly addresses: Readonly<Record<'grpcInference' | 'grpcManagement', string>>;
  /** Opens those that `listen_after_loading` left closed. @throws {ListenError} */
  openRest(): Promise<void>;
  /** Something that readiness depends on has changed; changes of models and workers are noticed anyhow. */
  readinessChanged(): void;
  /** Health turns NOT_SERVING. */
  drain(): void;
  /**
   * Stops listening and waits for the calls that run, at most so many milliseconds.
   * @returns calls that were cut then
   */
  close(timeoutMs: number): Promise<number>;
}

/**
 * Opens the gRPC listeners; those of equal address share one.
 * @throws {ListenError} naming the setting when one cannot be opened; none stays open then
 */
export async function startGrpcListeners(options: GrpcOptions): Promise<GrpcListeners> {
  const { config, inference, management, readiness } = options;
  // What it has to say on the console we say ourselves, in the log and with the setting.
  if (process.env['GRPC_VERBOSITY'] === undefined) setLogVerbosity(logVerbosity.NONE);
  const services = Object.values(serviceNames).filter((name) => name !== serviceNames.health);
  const health = new Health({ management, readiness, services });
  const calls = new OpenCalls();
  const streams = new SequenceStreams({ calls, inference, sequenceKeys: options.sequenceKeys });
  const where = { inference: config.grpcInference, management: config.grpcManagement };
  const shared = isShared(where.inference, where.management);
  const servers: Server[] = [];
  const addresses = { inference: '', management: '' };
  const rest: Array<() => Promise<void>> = [];
  try {
    for (const group of shared ? [['inference', 'management'] as const] : [['inference'] as const, ['management'] as const]) {
      const [first] = group;
      const server = createServer(options, calls, first);
      servers.push(server);
      if ((group as readonly Scope[]).includes('inference')) {
        const rooms = { ...options, calls, sequenceStreams: streams, maxResponseSize: config.maxResponseSize };
        server.addService(serviceDefinition('inference'), inferenceApi(rooms));
        server.addService(serviceDefinition('openInference'), openInferenceApi(rooms));
      }
      if ((group as readonly Scope[]).includes('management'))
        server.addService(serviceDefinition('management'), managementApi(calls, config, management));
      server.addService(serviceDefinition('health'), health.implementation(calls));
      const listed = group.flatMap((scope) =>
        scope === 'inference' ? [serviceNames.inference, serviceNames.openInference] : [serviceNames.management],
      );
      new ReflectionService(reflectable(definitions()), { services: [...listed, serviceNames.health] }).addToServer(server);
      const open = async () => {
        const address = await bind(server, where[first], first, options.tls);
        for (const scope of group) addresses[scope] = address;
      };
      if (config.listenAfterLoading && first === 'inference') rest.push(open);
      else await open();
    }
  } catch (error) {
    health.close();
    for (const server of servers) server.forceShutdown();
    throw error;
  }
  return {
    get addresses() {
      return { grpcInference: addresses.inference, grpcManagement: addresses.management };
    },
    async openRest() {
      for (const open of rest.splice(0)) await open();
    },
    readinessChanged: () => health.changed(),
    drain: () => health.drain(),
    async close(timeoutMs) {
      health.drain();
      const error = new ServeError('DRAINING', 'The server is shutting down.', { retryAfter: 1 });
      streams.stop(error);
      // These are open for as long as their clients like.
      calls.end(({ method }) => /^grpc\.(?:health|reflection)\./.test(method), error);
      const cut = await Promise.all(servers.map((server) => shutdown(server, timeoutMs, () => calls.size)));
      health.close();
      return Math.max(0, ...cut);
    },
  };
}

/** Port 0 asks for any free port, so each gets its own. */
function isShared(one: GrpcListen, other: GrpcListen): boolean {
  if (one.path !== undefined || other.path !== undefined) return one.path === other.path;
  return one.host === other.host && one.port === other.port && one.port !== 0;
}

function createServer({ config, inference, authorizer, log }: GrpcOptions, calls: OpenCalls, listener: Scope): Server {
  const { maxConnectionAge, maxConnectionAgeGrace } = listener === 'inference' ? config.grpcInference : config.grpcManagement;
  const channel: ChannelOptions = {
    'grpc.max_receive_message_length': config.maxRequestSize,
    // An answer's size is the worker's to judge.
    'grpc.max_send_message_length': -1,
    // A client that vanished without a word would hold its streams for ever.
    'grpc.keepalive_time_ms': 120_000,
    'grpc.keepalive_timeout_ms': 20_000,
    ...(maxConnectionAge === undefined ? {} : { 'grpc.max_connection_age_ms': maxConnectionAge }),
    ...(maxConnectionAgeGrace === undefined ? {} : { 'grpc.max_connection_age_grace_ms': maxConnectionAgeGrace }),
  };
  const intercept = interceptor(calls, {
    listener,
    authorizer,
    maxRequestSize: config.maxRequestSize,
    // Its message was not read, so nobody knows which model it was for.
    refused: ({ id, options }, error) => {
      if (options.listener === 'inference') inference.refused({ id, modelName: '', modelVersion: undefined }, error);
    },
    log,
  });
  return new Server({ ...channel, interceptors: [intercept] });
}

/** @returns how many calls were open when the time was over */
async function shutdown(server: Server, timeoutMs: number, open: () => number): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  let cut = 0;
  await new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      cut = open();
      server.forceShutdown();
      resolve();
    }, timeoutMs);
    server.tryShutdown(() => resolve());
  });
  clearTimeout(timer);
  return cut;
}
