import type { LogLevels } from '../domain/log-levels.js';
import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import { modelChanged, requestEnded } from '../domain/events.js';
import type { NodeSettings } from '@onnxserve/archiver/workflow-spec';
import { ServeError, toServeError } from '../domain/errors.js';
import { type InferenceService, monotonicNow, type PredictReply, type PredictRequest } from '../domain/request.js';
import type { ArchiveEnvironment } from '../registry/archive-environment.js';
import type { ModelArchive } from '../registry/model-archive.js';
import { openArchive } from '../registry/open-archive.js';
import { VersionTable } from '../registry/store.js';
import type { SpawnWorker } from '../workers/worker-process.js';
import type {
  Health,
  ManagementService,
  ModelDescription,
  ModelList,
  OperationStatus,
  RegisterOptions,
  ScaleOptions,
} from './management-service.js';
import { pageOf } from './page.js';
import { ServedModel } from './served-model.js';

export interface ModelServerOptions {
  readonly config: ServerConfig;
  readonly archives: ArchiveEnvironment;
  readonly cpus: number;
  readonly spawn?: SpawnWorker;
  readonly logLevels?: LogLevels;
  /** A sentence for the operator about something that happens in the background. */
  readonly warn?: (sentence: string) => void;
}

export interface StartupModel {
  readonly url: string;
  readonly modelName: string | undefined;
  readonly settings: StartupModelSettings | undefined;
  /** Workers when neither the archive nor `settings` says. */
  readonly workers: number;
}

/** All models of a server: the control plane and the data plane over one table. */
export class ModelServer implements ManagementService, InferenceService {
  readonly #options: ModelServerOptions;
  readonly #table = new VersionTable<ServedModel>();
  #nextWorker: number;
  #draining: ServeError | undefined;
  /** Start-up models that could not even be registered: a server without them must not look fine. */
  readonly #notRegistered: Array<Health['problems'][number] & { readonly url: string }> = [];

  constructor(options: ModelServerOptions) {
    this.#options = options;
    this.#nextWorker = options.config.initialWorkerPort;
    options.logLevels?.watch(() => {
      for (const { pool } of this.models) for (const worker of pool.workers) worker.tellLogLevel();
    });
  }

  /** Urls of the start-up models that could not be registered. */
  get notRegistered(): readonly string[] {
    return this.#notRegistered.map(({ url }) => url);
  }

  isDefault(model: ServedModel): boolean {
    return this.#table.find(model.name) === model;
  }

  get models(): readonly ServedModel[] {
    return this.#table.entries();
  }

  predict(request: PredictRequest): Promise<PredictReply> {
    let model: ServedModel;
    try {
      if (this.#draining !== undefined && request.admitted !== true) throw this.#draining;
      model = this.#table.get(request.modelName, request.modelVersion);
    } catch (error) {
      const refusal = toServeError(error);
      this.refused(request, refusal);
      return Promise.reject(refusal);
    }
    return model.predict(request);
  }

  refused({ id, modelName, modelVersion }: Pick<PredictRequest, 'id' | 'modelName' | 'modelVersion'>, error: ServeError): void {
    const model = this.#table.find(modelName, modelVersion);
    requestEnded.publish({
      model: model?.name ?? '',
      version: model?.version ?? '',
      requestedVersion: modelVersion,
      requestId: id,
      outcome: error.code,
      reason: error.reason,
      status: error.status,
      stages: undefined,
      totalNs: 0,
      batchSize: 0,
      workerId: undefined,
      responseBytes: 0,
    });
  }

  async register(options: RegisterOptions): Promise<OperationStatus> {
    const archive = await openArchive(
      {
        url: options.url,
        modelName: options.modelName,
        handler: options.handler,
        runtime: options.runtime,
        defaultHandler: this.#options.config.defaultServiceHandler,
      },
      this.#options.archives,
    );
    const given = { ...options, initialWorkers: options.initialWorkers ?? this.#options.config.defaultWorkersPerModel };
    const model = await this.#add(archive, given, undefined, false);
    const { minWorkers, maxWorkers } = model.settings;
    const shown = `Model "${model.name}" Version: ${model.version}`;
    if (minWorkers === 0)
      return {
        state: 'done',
        status: `${shown} registered with 0 initial workers. Use scale workers API to add workers for the model.`,
      };
    const scaled = model.pool.scale(minWorkers, maxWorkers);
    if (options.synchronous === false) {
      this.#inBackground(scaled, model);
      return { state: 'started', status: 'Processing worker updates...' };
    }
    try {
      await scaled;
      await model.pool.started();
    } catch (error) {
      await this.#remove(model, true);
      throw error;
    }
    this.#publish(model, 'ready');
    return { state: 'done', status: `${shown} registered with ${minWorkers} initial workers` };
  }

  /** Loads a model of the start-up configuration. @throws {ServeError} what is wrong with it; the model is not registered then */
  async registerAtStartup(startup: StartupModel): Promise<ServedModel> {
    try {
      return await this.#registerAtStartup(startup);
    } catch (error) {
      const { reason, message } = toServeError(error);
      this.#notRegistered.push({
        url: startup.url,
        model: startup.modelName ?? startup.url,
        reason,
        message: `${startup.url}: ${message}`,
      });
      throw error;
    }
  }

  async #registerAtStartup(startup: StartupModel): Promise<ServedModel> {
    const archive = await openArchive(
      {
        url: startup.url,
        modelName: startup.modelName,
        handler: startup.settings?.handler,
        defaultHandler: this.#options.config.defaultServiceHandler,
        trusted: true,
      },
      this.#options.archives,
    );
    const model = await this.#add(
      archive,
      { initialWorkers: startup.workers, handler: startup.settings?.handler },
      startup.settings,
      true,
    );
    if (startup.settings?.defaultVersion === true) this.#table.setDefault(model.name, model.version);
    const { minWorkers, maxWorkers } = model.settings;
    await model.pool.scale(minWorkers, maxWorkers);
    return model;
  }

  /**
   * Registers a node of a workflow and waits for its workers.
   * @throws {ServeError} what is wrong with it; the model is not registered then
   */
  async registerNode(archive: ModelArchive, owner: string, settings: NodeSettings): Promise<ServedModel> {
    const { minWorkers, maxWorkers, batchSize, maxBatchDelay } = settings;
    const given = { initialWorkers: minWorkers, batchSize, maxBatchDelay };
    const model = await this.#add(archive, given, undefined, false, owner);
    try {
      await model.pool.scale(minWorkers, maxWorkers);
      await model.pool.started();
    } catch (error) {
      await this.#remove(model, true);
      throw error;
    }
    this.#publish(model, 'ready');
    return model;
  }

  /** Removes a node of a workflow, after what it has accepted. */
  async unregisterNode(model: ServedModel): Promise<void> {
    await this.#remove(model, false);
  }

  /** Tells the world that a start-up model serves now. */
  announceReady(model: ServedModel): void {
    this.#publish(model, 'ready');
  }

  async unregister(modelName: string, version: string | undefined): Promise<OperationStatus> {
    const { owner } = this.#table.get(modelName, version);
    if (owner !== undefined) {
      throw new ServeError(
        'CONFLICT',
        `Model "${modelName}" is a node of workflow "${owner}"; DELETE /workflows/${encodeURIComponent(owner)} removes it.`,
      );
    }
    const model = this.#table.remove(modelName, version);
    await this.#retire(model, false);
    return { state: 'done', status: `Model "${modelName}" unregistered` };
  }

  async scale(modelName: string, version: string | undefined, options: ScaleOptions): Promise<OperationStatus> {
    const model = this.#table.get(modelName, version);
    const { minWorkers, maxWorkers, synchronous } = options;
    const shown = `Workers scaled to ${minWorkers} for model: ${modelName}`;
    const before = { min: model.pool.min, max: model.pool.max };
    const scaled = model.pool.scale(minWorkers, maxWorkers);
    this.#publish(model, 'scaled');
    if (!synchronous) {
      this.#inBackground(scaled, model);
      return { state: 'started', status: 'Processing worker updates...' };
    }
    await scaled;
    try {
      await model.pool.started();
    } catch (error) {
      // Nothing is gained by workers that cannot load; what ran before goes on.
      const ready = model.pool.ready;
      await model.pool.scale(Math.min(before.min, ready), Math.max(Math.min(before.max, ready), 0));
      this.#publish(model, 'scaled');
      throw error;
    }
    return { state: 'done', status: shown };
  }

  setDefault(modelName: string, version: string): Promise<OperationStatus> {
    try {
      this.#table.setDefault(modelName, version);
    } catch (error) {
      return Promise.reject(toServeError(error));
    }
    const chosen = this.#table.versionOf(modelName, version);
    modelChanged.publish({ model: modelName, version: chosen, change: 'default' });
    return Promise.resolve({
      state: 'done',
      status: `Default version successfully updated for model "${modelName}" to "${chosen}"`,
    });
  }

  async describe(modelName: string, version: string | undefined, customized: boolean): Promise<readonly ModelDescription[]> {
    const models =
      version === 'all' ? this.#table.versions(modelName).map(({ entry }) => entry) : [this.#table.get(modelName, version)];
    return await Promise.all(models.map(async (model) => (customized ? await customizedDescription(model) : model.describe())));
  }

  list(limit: number, pageToken: number): ModelList {
    const visible = this.#table.names().filter((name) => !this.#table.get(name).hidden);
    const { items, nextPageToken } = pageOf(visible, limit, pageToken);
    const models = items.map((name) => ({ modelName: name, modelUrl: this.#table.get(name).archive.url ?? '' }));
    return { ...(nextPageToken === undefined ? {} : { nextPageToken }), models };
  }

  health(): Health {
    const problems = this.#table.names().flatMap((name) => {
      const { pool, version } = this.#table.get(name);
      const healthy = pool.workers.filter((worker) => worker.healthy).length;
      if (healthy >= pool.min) return [];
      const error = pool.lastError();
      const message = `Model "${name}" version ${version} has ${healthy} of ${pool.min} workers${error === undefined ? '' : `: ${error.message}`}`;
      return [{ model: name, reason: error?.reason ?? 'worker-died', message }];
    });
    problems.push(...this.#notRegistered.map(({ model, reason, message }) => ({ model, reason, message })));
    return { healthy: problems.length === 0, problems };
  }

  /** Ready for traffic: every start-up model has the workers it wants. */
  notReady(): string[] {
    if (this.#draining !== undefined) return ['the server is shutting down'];
    const lacking = this.models
      .filter((model) => model.loadedAtStartup && model.pool.ready < Math.min(1, model.pool.min))
      .map((model) => {
        const error = model.pool.lastError();
        const state = error === undefined ? 'is loading' : `cannot be loaded: ${error.message}`;
        return `model "${model.name}" version ${model.version} ${state}`;
      });
    return [...this.#notRegistered.map(({ message }) => message), ...lacking];
  }

  /** New requests are refused from now on; parts of accepted ones are not. */
  drain(): ServeError {
    return (this.#draining ??= new ServeError('DRAINING', 'The server is shutting down and takes no new requests.', {
      retryAfter: 1,
    }));
  }

  /** Accepted requests finish, new ones are refused, workers end. */
  async close(timeoutMs: number): Promise<void> {
    const reason = this.drain();
    await Promise.all(
      this.models.map(async (model) => {
        await model.close(reason, timeoutMs);
        await closeArchive(model.archive);
      }),
    );
  }

  async #add(
    archive: ModelArchive,
    given: Partial<RegisterOptions>,
    startup: StartupModelSettings | undefined,
    loadedAtStartup: boolean,
    owner?: string,
  ): Promise<ServedModel> {
    const { config, cpus, spawn, logLevels } = this.#options;
    try {
      const model = new ServedModel({
        archive,
        config,
        given,
        startup,
        loadedAtStartup,
        owner,
        cpus,
        nextWorkerId: () => String(this.#nextWorker++),
        ...(spawn === undefined ? {} : { spawn }),
        warn: this.#options.warn,
        logLevels,
      });
      const { minWorkers, maxWorkers } = model.settings;
      if (maxWorkers > config.maxWorkersLimit) {
        throw new ServeError(
          'BAD_REQUEST',
          `Model "${archive.name}" asks for ${maxWorkers} workers (minWorkers ${minWorkers}), the limit is ${config.maxWorkersLimit} (max_workers_limit in config.properties).`,
        );
      }
      this.#table.add(archive.name, archive.version, model);
      this.#publish(model, 'registered');
      for (const warning of archive.warnings)
        this.#options.warn?.(`Model "${archive.name}" version ${archive.version}: ${warning}`);
      return model;
    } catch (error) {
      await archive.dispose();
      throw error;
    }
  }

  async #remove(model: ServedModel, now: boolean): Promise<void> {
    // Another version may have become the default meanwhile only by order; a failed registration leaves no trace either way.
    if (this.#table.find(model.name, model.version) === model) {
      const others = this.#table.versions(model.name).filter(({ entry }) => entry !== model);
      const isDefault = this.#table.defaultVersion(model.name) === model.version;
      if (isDefault && others.length > 0) this.#table.setDefault(model.name, others[0]!.version);
      this.#table.remove(model.name, model.version);
    }
    await this.#retire(model, now);
  }

  async #retire(model: ServedModel, now: boolean): Promise<void> {
    const gone = new ServeError('MODEL_NOT_FOUND', `Model "${model.name}" version ${model.version} was unregistered.`);
    await model.close(gone, now ? 0 : this.#options.config.unregisterModelTimeout * 1000);
    await model.archive.dispose();
    this.#publish(model, 'unregistered');
  }

  #inBackground(scaled: Promise<void>, model: ServedModel): void {
    scaled
      .then(() => model.pool.started())
      .then(() => this.#publish(model, 'ready'))
      .catch((error: unknown) => {
        const { message } = toServeError(error);
        modelChanged.publish({ model: model.name, version: model.version, change: 'failed', detail: message });
        this.#options.warn?.(message);
      });
  }

  #publish(model: ServedModel, change: 'registered' | 'ready' | 'scaled' | 'unregistered'): void {
    modelChanged.publish({ model: model.name, version: model.version, change });
  }
}

/** Describe with what the handler says of itself, asked in the model's own queue. */
async function customizedDescription(model: ServedModel): Promise<ModelDescription> {
  const reply = await model.predict({
    id: 'describe',
    modelName: model.name,
    modelVersion: model.version,
    kind: 'describe',
    rawHeaders: [],
    urlPath: '',
    query: [],
    body: Buffer.alloc(0),
    receivedAt: monotonicNow(),
    client: undefined,
  });
  const chunks: Buffer[] = [];
  if (Buffer.isBuffer(reply.body)) chunks.push(reply.body);
  else for await (const chunk of reply.body) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  return { ...model.describe(), customizedMetadata: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** A server that stops keeps what it downloaded: the next start finds it in the store. */
async function closeArchive(archive: ModelArchive): Promise<void> {
  await (archive.close?.() ?? archive.dispose());
}
