import type { ModelReadiness, ModelState } from '../src/serving/readiness.js';
import type { WorkflowService } from '../src/serving/workflows/workflow-service.js';
import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { onTestFinished } from 'vitest';
import type { GrpcListen, ListenAddress, ServerConfig } from '../src/config/server-config.js';
import { ServeError } from '../src/domain/errors.js';
import { type InferenceService, type PredictReply, type PredictRequest, noStages } from '../src/domain/request.js';
import { type Listeners, type ListenersOptions, startListeners } from '../src/listeners/start.js';
import type { ManagementService, ModelDescription, RegisterOptions, ScaleOptions } from '../src/serving/management-service.js';

export const anyPort = (host = '127.0.0.1', port = 0): ListenAddress => ({
  protocol: 'http',
  host,
  port,
  text: `http://${host}:${port}`,
});

const grpcPort: GrpcListen = { host: '127.0.0.1', port: 0, maxConnectionAge: undefined, maxConnectionAgeGrace: undefined };

/** The keys that listeners read; anything else would be undefined and fail the test that needs it. */
export function listenerConfig(overrides: Partial<ServerConfig> = {}): ServerConfig {
  return {
    inferenceAddress: anyPort(),
    managementAddress: anyPort(),
    metricsAddress: anyPort(),
    grpcInference: grpcPort,
    grpcManagement: grpcPort,
    maxResponseSize: 6_553_500,
    maxRequestSize: 6_553_500,
    maxBodyMemory: 1e9,
    queueFullStatus: 503,
    clientWriteTimeout: 60,
    maxWorkersLimit: 64,
    keepAliveTimeout: 75,
    enableMetricsApi: true,
    enableModelApi: true,
    ...overrides,
  } as ServerConfig;
}

export function reply(body: PredictReply['body'], more: Partial<PredictReply> = {}): PredictReply {
  return { status: 200, headers: [], body, stages: noStages(), batchSize: 1, workerId: 'w', modelVersion: '1.0', ...more };
}

/** Knows the models `kit` and `inspect`; answers with the body it got unless a test says otherwise. */
export class FakeInference implements InferenceService {
  readonly requests: PredictRequest[] = [];
  readonly refusals: ServeError[] = [];
  constructor(
    public answer: (request: PredictRequest) => PredictReply | Promise<PredictReply> = (request) => reply(request.body),
  ) {}
  async predict(request: PredictRequest): Promise<PredictReply> {
    this.requests.push(request);
    known(request.modelName);
    if (request.modelVersion !== undefined && request.modelVersion !== '1.0') {
      throw new ServeError('MODEL_VERSION_NOT_FOUND', `There is no version "${request.modelVersion}".`);
    }
    return this.answer(request);
  }
  refused(_request: unknown, error: ServeError): void {
    this.refusals.push(error);
  }
  get last(): PredictRequest {
    const request = this.requests.at(-1);
    if (!request) throw new Error('no request came');
    return request;
  }
}

function known(model: string): void {
  if (model !== 'kit' && model !== 'inspect') throw new ServeError('MODEL_NOT_FOUND', `There is no model "${model}".`);
}

export class FakeManagement implements ManagementService {
  readonly calls: unknown[][] = [];
  startup: string[] = ['kit', 'inspect'];
  unhealthy: Array<{ model: string; reason: string; message: string }> = [];
  async register(options: RegisterOptions) {
    this.calls.push(['register', options]);
    return { state: options.synchronous === false ? 'started' : 'done', status: 'Registered the model.' } as const;
  }
  async unregister(model: string, version: string | undefined) {
    known(model);
    this.calls.push(['unregister', model, version]);
    return { state: 'done', status: 'Unregistered the model.' } as const;
  }
  async scale(model: string, version: string | undefined, options: ScaleOptions) {
    known(model);
    this.calls.push(['scale', model, version, options]);
    return { state: options.synchronous ? 'done' : 'started', status: 'Workers scaled.' } as const;
  }
  async setDefault(model: string, version: string) {
    known(model);
    this.calls.push(['setDefault', model, version]);
    return { state: 'done', status: 'The default version is set.' } as const;
  }
  async describe(model: string, version: string | undefined, customized: boolean): Promise<readonly ModelDescription[]> {
    known(model);
    this.calls.push(['describe', model, version, customized]);
    const workers = [{ status: 'READY' }];
    return [
      {
        modelName: model,
        modelVersion: '1.0',
        loadedAtStartup: this.startup.includes(model),
        workers,
      } as unknown as ModelDescription,
    ];
  }
  list(limit: number, pageToken: number) {
    this.calls.push(['list', limit, pageToken]);
    return { models: ['inspect', 'kit'].map((name) => ({ modelName: name, modelUrl: `${name}.mar` })) };
  }
  state: ModelState = 'ready';
  readiness(name: string, version: string | undefined): ModelReadiness {
    known(name);
    return { name, version: version ?? '1.0', state: this.state, readyWorkers: 1, minWorkers: 1 };
  }
  health() {
    return { healthy: this.unhealthy.length === 0, problems: this.unhealthy };
  }
}

const unknown = (name: string): never => {
  throw new ServeError('WORKFLOW_NOT_FOUND', `There is no workflow "${name}".`);
};
export const noWorkflows: WorkflowService = {
  register: async ({ url }) => unknown(url),
  locate: async (url) => unknown(url),
  unregister: async (name) => unknown(name),
  describe: unknown,
  list: () => ({ workflows: [] }),
  predict: async (name) => unknown(name),
};

export interface Opened {
  readonly listeners: Listeners;
  readonly inference: FakeInference;
  readonly management: FakeManagement;
  /** Base URLs. */
  readonly at: { readonly inference: string; readonly management: string; readonly metrics: string };
}

/** Opens listeners over fakes and closes them when the test ends. */
export async function open(config: Partial<ServerConfig> = {}, options: Partial<ListenersOptions> = {}): Promise<Opened> {
  const inference = (options.inference as FakeInference | undefined) ?? new FakeInference();
  const management = new FakeManagement();
  const listeners = await startListeners({
    config: listenerConfig(config),
    management,
    workflows: noWorkflows,
    metrics: {
      scrape: async (_accept, names) => ({
        contentType: 'text/plain; version=0.0.4; charset=utf-8',
        body: `names ${names?.join(',') ?? 'all'}\n`,
      }),
    },
    readiness: () => ({ live: true, ready: true, phase: 'serving', problems: [], models: [] }),
    version: '0.0.0',
    ...options,
    inference,
  });
  onTestFinished(() => listeners.close(1000).then(() => undefined));
  const { addresses } = listeners;
  return { listeners, inference, management, at: { ...addresses, metrics: addresses.metrics ?? '' } };
}

/** A bare connection, for what an HTTP client does not let one send or see. */
export class Wire {
  text = '';
  #closed = false;
  #waiting = gate();
  private constructor(readonly socket: Socket) {
    socket.on('data', (data) => {
      this.text += data.toString('latin1');
      this.#wake();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
  }
  /** Lets those who wait look again. */
  #wake(): void {
    const woken = this.#waiting;
    this.#waiting = gate();
    woken.open();
  }
  static async to(base: string): Promise<Wire> {
    const { hostname, port } = new URL(base);
    const wire = new Wire(connect(Number(port), hostname));
    await once(wire.socket, 'connect');
    onTestFinished(() => void wire.socket.destroy());
    return wire;
  }
  send(data: string | Buffer): this {
    this.socket.write(data);
    return this;
  }
  /** Resolves when what has come matches. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) {
      if (this.#closed) throw new Error(`closed after ${JSON.stringify(this.text)}`);
      await this.#waiting.promise;
    }
    return this.text;
  }
  async closed(): Promise<string> {
    while (!this.#closed) await this.#waiting.promise;
    return this.text;
  }
}

/** A promise that a test settles. */
export function gate<T = void>(): { readonly promise: Promise<T>; readonly open: (value: T) => void } {
  let settle: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => (settle = resolve));
  return { promise, open: (value) => settle(value) };
}

/** Body of a JSON answer. */
export async function jsonOf(response: Response | Promise<Response>): Promise<Record<string, unknown> & { message: string }> {
  return (await (await response).json()) as Record<string, unknown> & { message: string };
}
