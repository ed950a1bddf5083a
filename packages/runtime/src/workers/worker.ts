import { readFileSync } from 'node:fs';
import type { SequenceEndReason } from '@onnxserve/handler-kit';
import type { Batcher } from '../batching/batcher.js';
import type { Job, Slot } from '../batching/job.js';
import { handlerMetric, workerChanged } from '../domain/events.js';
import type { LoadFailurePolicy } from '../domain/load-failure.js';
import type { LogLevels } from '../domain/log-levels.js';
import { ServeError } from '../domain/errors.js';
import type { FromWorker, LoadedInfo, LoadSpec } from '../ipc/messages.js';
import { Failures } from './failures.js';
import { HeldJobs, toError } from './held-jobs.js';
import { ResponseTimer } from './response-timer.js';
import { WorkerOutput } from './worker-output.js';
import type { SpawnOptions, SpawnWorker, WorkerProcess } from './worker-process.js';

export type WorkerState =
  | { readonly at: 'starting'; readonly process: WorkerProcess; readonly since: number }
  | { readonly at: 'ready'; readonly process: WorkerProcess; readonly since: number; readonly info: LoadedInfo }
  /** Between a failure and the next start. */
  | { readonly at: 'waiting'; readonly until: number }
  | { readonly at: 'gave-up' }
  | { readonly at: 'stopping'; readonly process: WorkerProcess }
  | { readonly at: 'stopped' };

export interface WorkerOptions {
  readonly id: string;
  readonly spec: LoadSpec;
  readonly batcher: Batcher;
  readonly spawn: SpawnWorker;
  readonly spawnOptions: SpawnOptions;
  /** Seconds. */
  readonly startupTimeout: number;
  /** Seconds; 0 or less: no limit. */
  readonly responseTimeout: number;
  /** Seconds. */
  readonly maxRetryTimeout: number;
  readonly onLoadFailure: LoadFailurePolicy;
  /** True: it loads and then waits for another one to fail. */
  readonly spare?: boolean;
  /** Run again what was running when the process died; undefined: unless the handler takes whole batches. */
  readonly rerunOnWorkerDeath: boolean | undefined;
  /** What the handlers of the worker may leave unsaid; undefined: nothing. */
  readonly logLevels: LogLevels | undefined;
  /** Told after every change of state. */
  readonly changed: (worker: Worker) => void;
}

/** Every state of a worker. */
export const workerStates = ['starting', 'ready', 'waiting', 'gave-up', 'stopping', 'stopped'] as const satisfies ReadonlyArray<
  WorkerState['at']
>;

/** What readiness asks about a worker. */
export interface PlaceFacts {
  readonly ready: boolean;
  /** A start has failed since it served last, or it was given up. */
  readonly failed: boolean;
  /** Milliseconds since the epoch of its first start, or of when it stopped serving. */
  readonly downSince: number;
}

/** One worker of a model: a place that a process fills, and is refilled by the back-off ladder when the process fails. */
export class Worker implements Slot {
  readonly workerId: string;
  readonly startTime = new Date();
  accepting = false;
  restarts = 0;
  lastError: ServeError | undefined;
  /** From the start of the process to the loaded model, the last time. */
  loadSeconds: number | undefined;
  readonly #options: WorkerOptions;
  readonly #held: HeldJobs;
  readonly #silence: ResponseTimer;
  readonly #output: WorkerOutput;
  #wholeBatch = true;
  #state: WorkerState = { at: 'stopped' };
  #spare: boolean;
  /** The queue knows it. */
  #attached = false;
  readonly #failures: Failures;
  #timer: NodeJS.Timeout | undefined;
  /** The present run of failures began with the death of a worker that had loaded. */
  #served = false;
  #stopped: Array<() => void> = [];

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#spare = options.spare ?? false;
    this.#failures = new Failures(options.maxRetryTimeout, options.onLoadFailure, Date.now());
    this.workerId = options.id;
    this.#output = new WorkerOutput(options.id, options.spec);
    this.#held = new HeldJobs({
      batcher: options.batcher,
      slot: this,
      spec: options.spec,
      rerun: () => options.rerunOnWorkerDeath ?? !this.#wholeBatch,
      send: (message, blobs) => {
        if ('process' in this.#state) this.#state.process.send(message, blobs);
      },
    });
    this.#silence = new ResponseTimer(options.responseTimeout, this.#held, () => this.#timedOut());
  }

  get jobs(): Set<Job> {
    return this.#held.jobs;
  }

  get progressAt(): number {
    return this.#held.progressAt;
  }

  set progressAt(value: number) {
    this.#held.progressAt = value;
  }

  get state(): WorkerState {
    return this.#state;
  }

  /** Waits for another one to fail instead of taking requests. */
  get spare(): boolean {
    return this.#spare;
  }

  get facts(): PlaceFacts {
    const { at } = this.#state;
    return { ready: at === 'ready', failed: at === 'gave-up' || this.#failures.startFailed, downSince: this.#failures.downSince };
  }

  /** A spare worker begins to take requests. */
  promote(): void {
    this.#spare = false;
    this.#serve();
    this.#options.changed(this);
  }

  /** Becomes the spare one when it has loaded again. */
  demote(): void {
    this.#spare = true;
  }

  /** Starts at once what waits for its next start or was given up: somebody asked for it. */
  revive(): void {
    if (this.#state.at !== 'waiting' && this.#state.at !== 'gave-up') return;
    clearTimeout(this.#timer);
    this.#failures.forget(Date.now());
    this.lastError = undefined;
    this.restarts++;
    this.start();
  }

  /** Threads of one of its runs. */
  get threads(): number {
    return this.#options.spec.threads;
  }

  get pid(): number | undefined {
    return 'process' in this.#state ? this.#state.process.pid : undefined;
  }

  /** Not given up: never failed since its last load, or still inside the window in which it is retried. */
  get healthy(): boolean {
    return this.#state.at !== 'gave-up';
  }

  /** Takes requests, or did before a death that it is expected to come back from. */
  get serving(): boolean {
    return this.#state.at === 'ready' || (this.#served && this.promising);
  }

  /** Takes requests now, or will soon: it runs, it starts, or it is between a death in service and its replacement. */
  get promising(): boolean {
    switch (this.#state.at) {
      case 'starting':
        return this.#failures.count === 0 || this.#served;
      case 'ready':
        return true;
      case 'waiting':
        return this.#served;
      case 'gave-up':
      case 'stopping':
      case 'stopped':
        return false;
    }
  }

  /** Resident bytes of the process. */
  get memory(): number {
    if (this.pid === undefined) return 0;
    try {
      return Number(readFileSync(`/proc/${this.pid}/statm`, 'latin1').split(' ')[1]) * 4096;
    } catch {
      return 0;
    }
  }

  start(): void {
    const { spawn, spawnOptions, spec, startupTimeout } = this.#options;
    this.#output.begin();
    const process = spawn(spawnOptions, {
      message: (message, blob) => this.#receive(message, blob),
      exit: (code, signal) => this.#exited(code, signal),
      line: (stream, line) => this.#output.line(stream, line),
    });
    this.#enter({ at: 'starting', process, since: Date.now() });
    this.tellLogLevel();
    process.send({ type: 'load', spec });
    if (startupTimeout > 0) {
      this.#timer = setTimeout(() => {
        this.lastError = new ServeError(
          'WORKER_START_FAILED',
          `Worker ${this.workerId} of model "${spec.name}" did not load within ${startupTimeout} s (startupTimeout).`,
          { reason: 'workers-starting' },
        );
        process.kill('SIGKILL');
      }, startupTimeout * 1000);
    }
  }

  /** Says to the process how much its handler may say. */
  tellLogLevel(): void {
    const { logLevels } = this.#options;
    if (logLevels !== undefined && 'process' in this.#state)
      this.#state.process.send({ type: 'log-level', level: logLevels.settings.model });
  }

  /** Ends the process; what it runs is finished first unless `now`. Resolves when it is gone. */
  async stop(now: boolean, graceMs: number): Promise<void> {
    const state = this.#state;
    // A second call must not take away the first one's limit.
    if (state.at !== 'stopping') clearTimeout(this.#timer);
    this.accepting = false;
    switch (state.at) {
      case 'waiting':
      case 'gave-up':
        this.#enter({ at: 'stopped' });
        return;
      case 'stopped':
        return;
      case 'starting':
      case 'ready':
        this.#enter({ at: 'stopping', process: state.process });
        if (now || state.at === 'starting') state.process.kill('SIGKILL');
        else {
          // Members of its sequences go nowhere else.
          this.accepting = this.#options.batcher.retire(this);
          if (!this.accepting) this.#stopWhenDone();
          if (!this.accepting && this.jobs.size > 0) this.recall(this.jobs.size);
          this.#timer = setTimeout(() => state.process.kill('SIGKILL'), graceMs);
        }
        break;
      case 'stopping':
        if (now) state.process.kill('SIGKILL');
        break;
    }
    await new Promise<void>((resolve) => this.#stopped.push(resolve));
  }

  send(jobs: readonly Job[]): void {
    this.#held.hand(jobs);
    this.#silence.arm();
  }

  cancel(job: Job): void {
    this.#held.cancel(job);
  }

  endSequence(number: number, reason: SequenceEndReason): void {
    if ('process' in this.#state) this.#state.process.send({ type: 'end-sequence', number, reason });
  }

  sequencesEnded(): void {
    this.#stopWhenDone();
  }

  #stopWhenDone(): void {
    if (this.#state.at !== 'stopping' || this.jobs.size > 0 || this.#options.batcher.retire(this)) return;
    this.accepting = false;
    this.#state.process.send({ type: 'stop' });
  }

  recall(count: number): void {
    if ('process' in this.#state) this.#state.process.send({ type: 'recall', count });
  }

  #receive(message: FromWorker, blob: Buffer): void {
    const { spec } = this.#options;
    switch (message.type) {
      case 'loaded':
        this.#loaded(message.info);
        return;
      case 'failed': {
        const { error } = message;
        this.lastError = toError(error);
        this.#output.log('error', 'log', this.#failures.shown(error));
        if ('process' in this.#state) this.#state.process.kill('SIGKILL');
        return;
      }
      case 'metrics':
        if (!handlerMetric.active) return;
        for (const metric of message.items) {
          handlerMetric.publish({ model: spec.name, version: spec.version, workerId: this.workerId, ...metric });
        }
        return;
      case 'log':
        this.#output.log(message.level, 'log', message.message, message.fields);
        return;
      case 'results':
        this.#failures.answered = true;
        if (this.#held.receive(message, blob)) this.#afterAnswers();
        return;
      case 'run':
      case 'stream-start':
      case 'stream-chunk':
      case 'stream-end':
      case 'recalled':
        if (this.#held.receive(message, blob)) this.#afterAnswers();
        return;
    }
  }

  #loaded(info: LoadedInfo): void {
    if (this.#state.at !== 'starting') return;
    clearTimeout(this.#timer);
    this.#failures.loaded();
    this.lastError = undefined;
    this.#served = true;
    const now = Date.now();
    this.loadSeconds = (now - this.#state.since) / 1000;
    this.#options.batcher.wholeBatch = info.wholeBatch;
    this.#options.batcher.continuous = info.continuous;
    this.#enter({ at: 'ready', process: this.#state.process, since: now, info }, info.loadMs / 1000);
    this.#wholeBatch = info.wholeBatch;
    const { threads, threadsFrom } = this.#options.spec;
    const load = `loaded in ${Math.round(info.loadMs)} ms`;
    this.#output.log('info', 'log', `${load}, a run uses ${threads} ${threads === 1 ? 'thread' : 'threads'} (${threadsFrom})`);
    this.#serve();
  }

  #serve(): void {
    // It may have been promoted while the others were told that it is ready.
    if (this.#spare || this.#attached || this.#state.at !== 'ready') return;
    this.#attached = true;
    this.accepting = true;
    this.#options.batcher.attach(this);
  }

  #afterAnswers(): void {
    this.#stopWhenDone();
    this.#options.batcher.pump();
  }

  #timedOut(): void {
    const { spec, responseTimeout } = this.#options;
    const error = new ServeError(
      'RESPONSE_TIMEOUT',
      `Model "${spec.name}" gave no answer within ${responseTimeout} s (responseTimeout); its worker is replaced.`,
    );
    this.#output.log('error', 'log', error.message);
    // Before anything goes back to the queue, or it would be handed to the same process again.
    this.accepting = false;
    this.#held.blame(error);
    this.lastError = error;
    if ('process' in this.#state) this.#state.process.kill('SIGKILL');
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    clearTimeout(this.#timer);
    this.#silence.stop();
    const { batcher, spec } = this.#options;
    const before = this.#state;
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
    const { tail } = this.#output;
    const died = new ServeError('WORKER_DIED', `Worker died (${how}) while it ran this request of model "${spec.name}".`, {
      reason: signal === 'SIGKILL' || code === 137 ? 'host-out-of-memory' : 'worker-died',
    });
    batcher.detach(this);
    this.#attached = false;
    this.#held.lose(died, before.at === 'stopping' || before.at === 'stopped');

    if (before.at === 'stopping' || before.at === 'stopped') {
      this.#enter({ at: 'stopped' }, undefined, code, signal);
      for (const resolve of this.#stopped) resolve();
      this.#stopped = [];
      return;
    }
    this.lastError ??= new ServeError(
      'WORKER_START_FAILED',
      `Worker ${this.workerId} of model "${spec.name}" ended with ${how}${before.at === 'starting' ? ' while it loaded' : ''}${tail === '' ? '' : `: ${tail}`}.`,
      { reason: 'worker-died' },
    );
    if (before.at === 'ready')
      this.#output.log('error', 'log', `worker ${this.workerId} ended with ${how}${tail === '' ? '' : `: ${tail}`}`);
    const now = Date.now();
    const next = this.#failures.ended(before.at === 'ready' ? before.since : undefined, now);
    if (before.at === 'ready') this.#served = true;
    else if (this.#failures.count > 1) this.#served = false;
    if (next.kind === 'give-up') {
      this.#enter({ at: 'gave-up' }, undefined, code, signal);
      return;
    }
    this.#enter({ at: 'waiting', until: now + next.seconds * 1000 }, undefined, code, signal);
    if (this.#state.at !== 'waiting') return;
    this.#timer = setTimeout(() => {
      this.restarts++;
      this.start();
    }, next.seconds * 1000);
  }

  #enter(state: WorkerState, loadSeconds?: number, exitCode?: number | null, signal?: string | null): void {
    this.#state = state;
    const { spec } = this.#options;
    if (workerChanged.active) {
      workerChanged.publish({
        model: spec.name,
        version: spec.version,
        workerId: this.workerId,
        pid: this.pid,
        state: state.at,
        ...(this.lastError === undefined ? {} : { detail: this.lastError.message }),
        ...(exitCode === undefined ? {} : { exitCode, signal: signal ?? null }),
        ...(loadSeconds === undefined ? {} : { loadSeconds }),
      });
    }
    this.#options.changed(this);
  }
}
