import type { LogLevels } from '../domain/log-levels.js';
import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import { modelChanged } from '../domain/events.js';
import type { NodeSettings } from '@onnxserve/archiver/workflow-spec';
import { ServeError, toServeError } from '../domain/errors.js';
import { type InferenceService, type PredictReply, type PredictRequest } from '../domain/request.js';
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
import { type ModelReadiness, type Phase, type Readiness, serverReadiness } from './readiness.js';
import { customizedDescription } from './customized-description.js';
import { publishRefusal } from './publish-refusal.js';
import { StartupRecord } from './startup-record.js';
import { pageOf } from './page.js';
import { ServedModel } from './served-model.js';

/** What workers may take to end when a server stops, at least. Milliseconds. */
const LEAST_STOP_MS = 2_000;

export interface ModelServerOptions {
  readonly config: ServerConfig;
  readonly archives: ArchiveEnvironment;
  readonly cpus: number;
  readonly spawn?: SpawnWorker;
  readonly logLevels?: LogLevels;
  /** A sentence for the operator about something that happens in the background. */
  readonly warn?: (sentence: string) => void;
  /** The server shall end, because a model whose `onLoadFailure` is `exit` cannot be loaded. */
  readonly fatal?: (sentence: string) => void;
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
  readonly #retired = new WeakMap<ServedModel, Promise<void>>();
  readonly #table = new VersionTable<ServedModel>();
  #nextWorker: number;
  #draining: ServeError | undefined;
  /** Readiness is false for good; requests are still taken. */
  #leaving = false;
  readonly startup = new StartupRecord();

  constructor(options: ModelServerOptions) {
    this.#options = options;
    this.#nextWorker = options.config.initialWorkerPort;
    options.logLevels?.watch(() => {
      for (const { pool } of this.models) for (const worker of pool.workers) worker.tellLogLevel();
    });
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
      if (this.startup.running) this.startup.check(request.modelName, this.#table.find(request.modelName, request.modelVersion));
      model = this.#table.get(request.modelName, request.modelVersion);
    } catch (error) {
      const refusal = toServeError(error);
      this.refused(request, refusal);
      return Promise.reject(refusal);
    }
    return model.predict(request);
  }

  refused(request: Pick<PredictRequest, 'id' | 'modelName' | 'modelVersion'>, error: ServeError): void {
    publishRefusal(request, this.#table.find(request.modelName, request.modelVersion), error);
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
      this.startup.failed(startup, error);
      if (this.#options.config.onLoadFailure === 'exit')
        this.#options.fatal?.(this.startup.notRegistered.at(-1)?.message ?? startup.url);
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
      // Nothing is gained by workers that cannot load; what was asked for before goes on.
      await model.pool.restore(before.min, before.max);
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
    if (this.#leaving)
      return { healthy: false, problems: [{ model: '', reason: 'draining', message: 'the server is shutting down' }] };
    const problems = this.#table.names().flatMap((name) => {
      const { pool, version } = this.#table.get(name);
      const healthy = pool.active.filter((worker) => worker.healthy).length;
      if (healthy >= pool.min) return [];
      const error = pool.lastError();
      const message = `Model "${name}" version ${version} has ${healthy} of ${pool.min} workers${error === undefined ? '' : `: ${error.message}`}`;
      return [{ model: name, reason: error?.reason ?? 'worker-died', message }];
    });
    problems.push(...this.startup.notRegistered.map(({ model, reason, message }) => ({ model, reason, message })));
    return { healthy: problems.length === 0, problems };
  }

  /** Whether traffic may be sent here. @param blocked why the front itself cannot serve */
  serverReadiness(phase: Phase, blocked: string | undefined): Readiness {
    const now = Date.now();
    return serverReadiness({
      phase: this.#leaving ? 'draining' : phase,
      blocked,
      // A model that was added meanwhile and never served takes nobody out of rotation.
      counted: this.models
        .filter(({ loadedAtStartup, hasServed }) => loadedAtStartup || hasServed)
        .map((it) => it.readiness(now)),
      notRegistered: this.startup.notRegistered.map(({ message }) => message),
    });
  }

  readiness(modelName: string, version: string | undefined): ModelReadiness {
    const readiness = this.#table.get(modelName, version).readiness(Date.now());
    if (!this.#leaving) return readiness;
    return { ...readiness, state: 'failed', reason: 'draining', message: 'the server is shutting down' };
  }

  /** Health says that the server is leaving; requests are still taken. */
  leave(): void {
    this.#leaving = true;
  }

  /** New requests are refused from now on; parts of accepted ones are not. */
  drain(): ServeError {
    this.leave();
    return (this.#draining ??= new ServeError('DRAINING', 'The server is shutting down and takes no new requests.', {
      retryAfter: 1,
    }));
  }

  /**
   * Accepted requests finish, new ones are refused, workers end.
   * @returns how many accepted requests of each model did not finish in time
   */
  async close(timeoutMs: number): Promise<ReadonlyMap<string, number>> {
    const reason = this.drain();
    const until = performance.now() + timeoutMs;
    const cut = new Map<string, number>();
    await Promise.all(
      this.models.map(async (model) => {
        // Handlers get a moment to end, however little of the time is left.
        const grace = () => Math.max(LEAST_STOP_MS, until - performance.now());
        const requests = await model.close(reason, timeoutMs, grace);
        if (requests > 0) cut.set(model.name, (cut.get(model.name) ?? 0) + requests);
        // What was downloaded stays: the next start finds it in the store.
        await (model.archive.close?.() ?? model.archive.dispose());
      }),
    );
    return cut;
  }

  /** Requests of each model that are accepted and not answered. */
  pending(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { name, batcher } of this.models) {
      if (batcher.pending > 0) counts.set(name, (counts.get(name) ?? 0) + batcher.pending);
    }
    return counts;
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
        gaveUp: (lost, worker) => this.#gaveUp(lost, worker.lastError),
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

  /** A failed registration and an unregistration of the same model are one. */
  #retire(model: ServedModel, now: boolean): Promise<void> {
    let retired = this.#retired.get(model);
    if (retired === undefined) {
      retired = this.#end(model, now);
      this.#retired.set(model, retired);
    }
    return retired;
  }

  /** A registration that never worked ends nobody's server. */
  #gaveUp(model: ServedModel, error: ServeError | undefined): void {
    const { name, version, settings, loadedAtStartup, hasServed } = model;
    const why = `Model "${name}" version ${version} was given up${error === undefined ? '' : `: ${error.message}`}`;
    this.#options.warn?.(`${why} PUT /models/${encodeURIComponent(name)}?min_worker=N starts its workers again.`);
    if (settings.onLoadFailure === 'exit' && (loadedAtStartup || hasServed)) this.#options.fatal?.(why);
  }

  async #end(model: ServedModel, now: boolean): Promise<void> {
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
