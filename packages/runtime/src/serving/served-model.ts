import { Batcher } from '../batching/batcher.js';
import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import { type LogLevels } from '../domain/log-levels.js';
import { type ThreadInputs, type ThreadShare, threadShare, threadWarning, unreadableThreads } from '../config/threads.js';
import { ServeError } from '../domain/errors.js';
import type { PredictReply, PredictRequest } from '../domain/request.js';
import type { SequenceKeys } from '../domain/sequence-keys.js';
import type { ModelArchive } from '../registry/model-archive.js';
import { Pool } from '../workers/pool.js';
import { Worker } from '../workers/worker.js';
import { spawnWorker, type SpawnWorker } from '../workers/worker-process.js';
import { visibleEnvironment, workerEnvironment, workerNodeFlags } from '../workers/environment.js';
import { describeModel } from './describe.js';
import type { ModelDescription, RegisterOptions } from './management-service.js';
import { type ModelReadiness, modelState, servesNow } from './readiness.js';
import { placeInSequence } from './sequence-place.js';
import { effectiveSettings, type ModelSettings } from './settings.js';

export interface ServedModelOptions {
  readonly archive: ModelArchive;
  readonly config: ServerConfig;
  readonly given: Partial<RegisterOptions>;
  readonly startup: StartupModelSettings | undefined;
  readonly loadedAtStartup: boolean;
  /** The workflow that it is a node of. */
  readonly owner?: string | undefined;
  readonly cpus: number;
  readonly nextWorkerId: () => string;
  readonly spawn?: SpawnWorker;
  readonly warn?: ((sentence: string) => void) | undefined;
  readonly logLevels?: LogLevels | undefined;
  /** Told of a worker that is not started again. */
  readonly gaveUp?: (model: ServedModel, worker: Worker) => void;
}

/** One version of a model while it is registered: its archive, its queue, its workers. */
export class ServedModel {
  readonly archive: ModelArchive;
  readonly settings: ModelSettings;
  readonly loadedAtStartup: boolean;
  readonly owner: string | undefined;
  /** A handler that was named at registration, in the place of the archive's. */
  readonly givenHandler: string | undefined;
  /** A snapshot brought it back. */
  readonly restored: boolean;
  readonly batcher: Batcher;
  readonly pool: Pool;
  readonly #sequenceKeys: SequenceKeys;
  readonly #cpus: number;
  /** What workers may see of the server's. */
  readonly #environment: NodeJS.ProcessEnv;
  readonly #warn: (sentence: string) => void;
  #warned: string | undefined;
  #hasServed = false;

  constructor(options: ServedModelOptions) {
    const { archive, config, cpus, nextWorkerId } = options;
    this.archive = archive;
    this.#sequenceKeys = config.sequenceKeys;
    this.#cpus = cpus;
    this.#environment = visibleEnvironment(process.env, config);
    this.#warn = options.warn ?? (() => undefined);
    this.loadedAtStartup = options.loadedAtStartup;
    this.owner = options.owner;
    this.givenHandler = options.given.handler;
    this.restored = options.loadedAtStartup && config.modelsFromSnapshot === true;
    this.settings = effectiveSettings(archive, config, options.given, options.startup);
    const { settings } = this;
    this.batcher = new Batcher({
      model: archive.name,
      version: archive.version,
      batchSize: settings.batchSize,
      maxBatchDelay: settings.delayIsExplicit ? settings.maxBatchDelay : undefined,
      jobQueueSize: settings.jobQueueSize,
      useJobTicket: settings.useJobTicket,
      newestFirst: archive.config.newestFirstUnderLoad ?? false,
      clientTimeout: settings.clientTimeoutInMills,
      sequences: settings.sequences,
    });
    let placed = 0;
    const pool = () => this.pool;
    this.pool = new Pool({
      stopGraceMs: config.unregisterModelTimeout * 1000,
      // Known from the beginning: what is written down about the model meanwhile must not say that it has none.
      min: settings.minWorkers,
      max: settings.maxWorkers,
      spareWorkers: settings.spareWorkers,
      create: (changed, spare) => {
        const id = nextWorkerId();
        const device = deviceOf(archive, placed++);
        const share = Math.max(1, Math.floor(cpus / Math.max(1, this.pool.min)));
        const { threads, from } = this.threads();
        this.#warnOfThreads();
        return new Worker({
          id,
          batcher: this.batcher,
          spawn: options.spawn ?? spawnWorker,
          spawnOptions: {
            env: workerEnvironment(this.#environment, { threads, from }),
            cwd: archive.directory,
            nodeFlags: workerNodeFlags(share),
          },
          startupTimeout: settings.startupTimeout,
          responseTimeout: settings.responseTimeout,
          maxRetryTimeout: settings.maxRetryTimeoutInSec,
          onLoadFailure: settings.onLoadFailure,
          spare,
          logLevels: options.logLevels,
          rerunOnWorkerDeath: archive.config.rerunOnWorkerDeath,
          changed: (worker) => {
            changed(worker);
            if (pool().min > 0 && pool().ready >= pool().min) this.#hasServed = true;
            if (worker.state.at === 'gave-up') options.gaveUp?.(this, worker);
            const unserved = this.#unserved();
            if (unserved !== undefined) this.batcher.failWaiting(unserved);
          },
          spec: {
            workerId: id,
            name: archive.name,
            version: archive.version,
            directory: archive.directory,
            handler: archive.handler,
            modelFile: archive.modelFile,
            sessionFiles: archive.sessionFiles,
            onnx: archive.config.onnx,
            free: archive.config.free,
            device,
            threads,
            threadsFrom: from,
            batchSize: settings.batchSize,
            adaptive: !settings.delayIsExplicit,
            responseTimeout: settings.responseTimeout,
            maxRequestSize: config.maxRequestSize,
            maxResponseSize: config.maxResponseSize,
            limitPixels: config.limitMaxImagePixels,
            envelope: config.serviceEnvelope,
            sequences: settings.sequences !== undefined,
          },
        });
      },
    });
  }

  get name(): string {
    return this.archive.name;
  }

  get version(): string {
    return this.archive.version;
  }

  /** It has had all of its workers before. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  readiness(now: number): ModelReadiness {
    const { name, version, pool } = this;
    const places = pool.active.map((worker) => worker.facts);
    const facts = { minWorkers: pool.min, places, loadedBefore: this.#hasServed, loadSeconds: pool.loadSeconds };
    const state = modelState(facts, now);
    const shown = { name, version, state, readyWorkers: pool.ready, minWorkers: pool.min };
    if (servesNow(state) || state === 'no-workers') return shown;
    const error = pool.active.find(({ lastError }) => lastError !== undefined)?.lastError;
    const has = `model "${name}" version ${version} has ${pool.ready} of ${pool.min} workers`;
    const what = state === 'loading' ? 'is loading' : this.#hasServed ? 'does not get its workers back' : 'cannot be loaded';
    return {
      ...shown,
      reason: error?.reason ?? 'workers-starting',
      message: `${has} and ${what}${error === undefined ? '' : `: ${error.message}`}`,
    };
  }

  /** Functions of workflows are described when asked for, but not listed. */
  get hidden(): boolean {
    return this.archive.handler.kind === 'function';
  }

  predict(request: PredictRequest): Promise<PredictReply> {
    if (this.settings.sequences !== undefined && request.kind !== 'describe') return this.#predictInSequence(request);
    return this.batcher.submit(request, this.#unserved());
  }

  /** The answer names the sequence, since the server may have chosen its id. */
  async #predictInSequence(request: PredictRequest): Promise<PredictReply> {
    const { mark, rawHeaders } = placeInSequence(request, this.#sequenceKeys);
    const reply = await this.batcher.submit({ ...request, rawHeaders, sequence: mark }, this.#unserved());
    if (!/^[\x20-\x7e]+$/.test(mark.id)) return reply;
    return { ...reply, headers: [...reply.headers, [this.#sequenceKeys.id, mark.id]] };
  }

  /** Why no worker will take a request: there is none, or none of them can be loaded. */
  #unserved(): ServeError | undefined {
    const { workers } = this.pool;
    if (workers.some((worker) => worker.promising)) return undefined;
    const { name, version } = this;
    const error = this.pool.lastError();
    if (workers.length === 0) {
      return new ServeError(
        'MODEL_NOT_READY',
        `Model "${name}" version ${version} has no worker to serve it. Scale it up: PUT /models/${encodeURIComponent(name)}?min_worker=1.`,
        { reason: 'workers-too-few', retryAfter: 1 },
      );
    }
    return new ServeError(
      'MODEL_NOT_READY',
      `Model "${name}" version ${version} cannot be loaded: ${error?.message ?? 'its workers do not start'}`,
      {
        reason: error?.reason ?? 'not-ready',
        retryAfter: 5,
      },
    );
  }

  /** Threads of a run for the workers that are started from now on. */
  threads(): ThreadShare {
    return threadShare(this.#threadInputs());
  }

  threadWarning(): string | undefined {
    if (this.archive.config.deviceType === 'gpu') return undefined;
    return threadWarning(this.threads(), this.#threadInputs()) ?? unreadableThreads(this.#environment);
  }

  #threadInputs(): ThreadInputs {
    return { configured: this.settings.threads, environment: this.#environment, cpus: this.#cpus, workers: this.pool.min };
  }

  /** Once for each number of workers, not for each of them. */
  #warnOfThreads(): void {
    const warning = this.threadWarning();
    if (warning !== undefined && warning !== this.#warned) this.#warn(`Model "${this.name}" version ${this.version}: ${warning}`);
    this.#warned = warning;
  }

  describe(): ModelDescription {
    return describeModel(this);
  }

  /**
   * Refuses what comes, lets what was accepted finish within the time, ends the workers.
   * @param graceMs what a worker may take to end after that; undefined: as at unregistration
   * @returns requests that were accepted and did not finish in time
   */
  async close(reason: ServeError, timeoutMs: number, graceMs?: () => number): Promise<number> {
    this.batcher.close(reason, false);
    // A first load may take minutes or never end; who waits for it is answered.
    const hopeful = this.pool.workers.some((worker) => worker.serving);
    const finished = hopeful && (await within(this.batcher.empty(), timeoutMs));
    const cut = finished ? 0 : this.batcher.pending;
    if (!finished) this.batcher.close(reason, true);
    await this.pool.stop(!finished, graceMs?.());
    return cut;
  }
}

function deviceOf(archive: ModelArchive, index: number): { type: 'cpu' | 'gpu'; id: number | undefined } {
  const { deviceType, deviceIds, onnx } = archive.config;
  const wantsGpu = deviceType === 'gpu' || (onnx.providers?.some((name) => /^cuda/i.test(name)) ?? false);
  if (!wantsGpu) return { type: 'cpu', id: undefined };
  const ids = deviceIds !== undefined && deviceIds.length > 0 ? deviceIds : [0];
  return { type: 'gpu', id: ids[index % ids.length] };
}

/** @returns false when the time was up first */
export async function within(promise: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
