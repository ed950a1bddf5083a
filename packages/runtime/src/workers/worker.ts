import { readFileSync } from 'node:fs';
import type { Batcher } from '../batching/batcher.js';
import type { Job, Slot } from '../batching/job.js';
import { batchRan, handlerMetric, workerChanged, workerLog } from '../domain/events.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, type StageTimes } from '../domain/request.js';
import type { FromWorker, LoadedInfo, LoadSpec, WireError, WireResult } from '../ipc/messages.js';
import { type FailureHistory, nextAttempt } from './backoff.js';
import { ReplyStream } from './reply-stream.js';
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
  /** Told after every change of state. */
  readonly changed: (worker: Worker) => void;
}

const STDERR_LINES = 20;
const STREAM_WINDOW = 1024 * 1024;

interface OpenStream {
  readonly stream: ReplyStream;
  readonly status: number;
  /** The object that the reply carries; complete when the stream has ended. */
  readonly stages: StageTimes;
  unacknowledged: number;
  bytes: number;
}

/** One worker of a model: a place that a process fills, and is refilled by the back-off ladder when the process fails. */
export class Worker implements Slot {
  readonly workerId: string;
  readonly startTime = new Date();
  readonly jobs = new Set<Job>();
  accepting = false;
  progressAt = 0;
  restarts = 0;
  lastError: ServeError | undefined;
  readonly #options: WorkerOptions;
  readonly #byId = new Map<number, Job>();
  readonly #streams = new Map<number, OpenStream>();
  #state: WorkerState = { at: 'stopped' };
  #failures: FailureHistory = { failures: 0, firstAt: 0 };
  #stderr: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #responseTimer: NodeJS.Timeout | undefined;
  /** The present run of failures began with the death of a worker that had loaded. */
  #served = false;
  #nextBatch = 1;
  #stopped: Array<() => void> = [];

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.workerId = options.id;
  }

  get state(): WorkerState {
    return this.#state;
  }

  get pid(): number | undefined {
    return 'process' in this.#state ? this.#state.process.pid : undefined;
  }

  /** Never failed since its last load, or still inside the window in which it is retried. */
  get healthy(): boolean {
    return this.#state.at !== 'gave-up';
  }

  /** Takes requests now, or will soon: it runs, it starts, or it is between a death in service and its replacement. */
  get promising(): boolean {
    switch (this.#state.at) {
      case 'starting':
        return this.#failures.failures === 0 || this.#served;
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
    this.#stderr = [];
    const process = spawn(spawnOptions, {
      message: (message, blob) => this.#receive(message, blob),
      exit: (code, signal) => this.#exited(code, signal),
      line: (stream, line) => this.#line(stream, line),
    });
    this.#enter({ at: 'starting', process, since: Date.now() });
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

  /** Ends the process; what it runs is finished first unless `now`. Resolves when it is gone. */
  async stop(now: boolean, graceMs: number): Promise<void> {
    clearTimeout(this.#timer);
    this.accepting = false;
    const state = this.#state;
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
          if (this.jobs.size > 0) this.recall(this.jobs.size);
          else state.process.send({ type: 'stop' });
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
    if (!('process' in this.#state)) return;
    const bodies: Buffer[] = [];
    const items = jobs.map((job) => {
      const { id, kind, rawHeaders, urlPath, query, body, receivedAt } = job.request;
      this.#byId.set(job.id, job);
      bodies.push(body);
      const deadline = job.deadline === undefined ? {} : { deadline: job.deadline };
      return { job: job.id, id, kind, rawHeaders, urlPath, query, length: body.length, receivedAt, ...deadline };
    });
    this.#state.process.send({ type: 'batch', batch: this.#nextBatch++, items }, bodies);
    this.#armResponseTimer();
  }

  cancel(job: Job): void {
    if ('process' in this.#state) this.#state.process.send({ type: 'cancel', jobs: [job.id] });
  }

  recall(count: number): void {
    if ('process' in this.#state) this.#state.process.send({ type: 'recall', count });
  }

  #receive(message: FromWorker, blob: Buffer): void {
    const { batcher, spec } = this.#options;
    switch (message.type) {
      case 'loaded':
        this.#loaded(message.info);
        return;
      case 'failed': {
        const { error } = message;
        this.lastError = new ServeError(error.code, error.message, { reason: error.reason });
        this.#log('error', 'log', error.stack ?? error.message);
        if ('process' in this.#state) this.#state.process.kill('SIGKILL');
        return;
      }
      case 'run': {
        this.progressAt = monotonicNow();
        for (const id of message.jobs) {
          const job = this.#byId.get(id);
          if (job?.state.at === 'worker') job.state.running = true;
        }
        if (batchRan.active) {
          batchRan.publish({
            model: spec.name,
            version: spec.version,
            workerId: this.workerId,
            rows: message.rows,
            items: message.jobs.length,
          });
        }
        return;
      }
      case 'results': {
        this.progressAt = monotonicNow();
        let at = 0;
        for (const result of message.items) {
          const body = result.ok ? blob.subarray(at, (at += result.length)) : undefined;
          this.#result(result, body);
        }
        this.#afterAnswers();
        return;
      }
      case 'stream-start': {
        this.progressAt = monotonicNow();
        const job = this.#byId.get(message.job);
        if (job === undefined) return;
        const stream = new ReplyStream(
          (bytes) => this.#taken(message.job, bytes),
          () => this.cancel(job),
        );
        this.#streams.set(message.job, { stream, status: message.status, stages: message.stages, unacknowledged: 0, bytes: 0 });
        const { status, headers, stages, batchSize } = message;
        job.resolve({ status, headers, body: stream, stages, batchSize, workerId: this.workerId, modelVersion: spec.version });
        return;
      }
      case 'stream-chunk': {
        this.progressAt = monotonicNow();
        const open = this.#streams.get(message.job);
        if (open === undefined) return;
        open.unacknowledged += blob.length;
        open.bytes += blob.length;
        open.stream.push(blob);
        return;
      }
      case 'stream-end': {
        this.progressAt = monotonicNow();
        const open = this.#streams.get(message.job);
        const job = this.#byId.get(message.job);
        this.#streams.delete(message.job);
        this.#byId.delete(message.job);
        if (job !== undefined && open !== undefined) {
          const error = message.error === undefined ? undefined : toError(message.error);
          if (error === undefined) {
            const { stages } = message;
            Object.assign(open.stages, stages);
            batcher.streamed(job, { stages, status: open.status, bytes: open.bytes, workerId: this.workerId });
            open.stream.end();
          } else {
            batcher.fail(job, error, message.stages);
            open.stream.fail(error);
          }
          this.jobs.delete(job);
        }
        this.#afterAnswers();
        return;
      }
      case 'recalled': {
        const jobs = message.jobs.map((id) => this.#byId.get(id)).filter((job) => job !== undefined);
        for (const job of jobs) {
          this.#byId.delete(job.id);
          this.jobs.delete(job);
        }
        batcher.putBack(jobs);
        this.#afterAnswers();
        return;
      }
      case 'metrics':
        if (!handlerMetric.active) return;
        for (const metric of message.items)
          handlerMetric.publish({ model: spec.name, version: spec.version, workerId: this.workerId, ...metric });
        return;
      case 'log':
        this.#log(message.level, 'log', message.message, message.fields);
        return;
    }
  }

  #loaded(info: LoadedInfo): void {
    if (this.#state.at !== 'starting') return;
    clearTimeout(this.#timer);
    this.#failures = { failures: 0, firstAt: 0 };
    this.lastError = undefined;
    this.#served = true;
    this.accepting = true;
    this.#enter({ at: 'ready', process: this.#state.process, since: Date.now(), info }, info.loadMs / 1000);
    this.#options.batcher.wholeBatch = info.wholeBatch;
    this.#options.batcher.attach(this);
  }

  #result(result: WireResult, body: Buffer | undefined): void {
    const { batcher, spec } = this.#options;
    const job = this.#byId.get(result.job);
    if (job === undefined) return;
    this.#byId.delete(result.job);
    this.jobs.delete(job);
    if (!result.ok) {
      batcher.fail(job, toError(result.error), result.stages, result.batchSize);
      return;
    }
    const { status, headers, stages, batchSize, postprocessedAt } = result;
    stages.encode += Math.max(0, monotonicNow() - postprocessedAt);
    batcher.succeed(job, {
      status,
      headers,
      body: body!,
      stages,
      batchSize,
      workerId: this.workerId,
      modelVersion: spec.version,
    });
  }

  #afterAnswers(): void {
    if (this.#state.at === 'stopping' && this.jobs.size === 0) this.#state.process.send({ type: 'stop' });
    this.#options.batcher.pump();
  }

  #taken(job: number, bytes: number): void {
    const open = this.#streams.get(job);
    if (open !== undefined) open.unacknowledged -= bytes;
    if ('process' in this.#state) this.#state.process.send({ type: 'taken', job, bytes });
  }

  /** One timer a worker: re-armed for what is left whenever there was progress meanwhile. */
  #armResponseTimer(): void {
    const { responseTimeout } = this.#options;
    if (responseTimeout <= 0 || this.#responseTimer !== undefined) return;
    const left = responseTimeout * 1000 - (monotonicNow() - this.progressAt) / 1e6;
    this.#responseTimer = setTimeout(
      () => {
        this.#responseTimer = undefined;
        if (this.jobs.size === 0 && this.#byId.size === 0) return;
        if (this.#waitsForClients()) this.progressAt = monotonicNow();
        if (monotonicNow() - this.progressAt < responseTimeout * 1e9 - 1e6) return this.#armResponseTimer();
        this.#timedOut();
      },
      Math.max(1, left),
    );
  }

  /** Everything it runs is a stream that its client does not take. */
  #waitsForClients(): boolean {
    const running = [...this.#byId.values()].filter((job) => job.state.at === 'worker' && job.state.running);
    return running.length > 0 && running.every((job) => (this.#streams.get(job.id)?.unacknowledged ?? 0) >= STREAM_WINDOW);
  }

  #timedOut(): void {
    const { batcher, spec, responseTimeout } = this.#options;
    const error = new ServeError(
      'RESPONSE_TIMEOUT',
      `Model "${spec.name}" gave no answer within ${responseTimeout} s (responseTimeout); its worker is replaced.`,
    );
    this.#log('error', 'log', error.message);
    const jobs = [...this.#byId.values()];
    const running = jobs.filter((job) => job.state.at === 'worker' && job.state.running);
    // Nothing runs when a handler blocks before its run: then the oldest item is the one it began first.
    const guilty = running.length > 0 ? running : jobs.slice(0, 1);
    for (const job of guilty) this.#end(job, error);
    batcher.putBack(jobs.filter((job) => !guilty.includes(job)));
    this.lastError = error;
    if ('process' in this.#state) this.#state.process.kill('SIGKILL');
  }

  #end(job: Job, error: ServeError): void {
    this.#byId.delete(job.id);
    const open = this.#streams.get(job.id);
    this.#streams.delete(job.id);
    this.#options.batcher.fail(job, error);
    open?.stream.fail(error);
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#responseTimer);
    this.#responseTimer = undefined;
    const { batcher, spec, maxRetryTimeout } = this.#options;
    const before = this.#state;
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
    const tail = this.#stderr.slice(-3).join(' | ').slice(0, 500);
    const died = new ServeError('WORKER_DIED', `Worker died (${how}) while it ran this request of model "${spec.name}".`, {
      reason: signal === 'SIGKILL' || code === 137 ? 'host-out-of-memory' : 'worker-died',
    });
    const left = new Set([...batcher.detach(this), ...this.#byId.values()]);
    const running = [...left].filter((job) => job.state.at === 'worker' && job.state.running);
    for (const job of running) this.#end(job, died);
    this.#byId.clear();
    batcher.putBack([...left].filter((job) => !running.includes(job)));
    this.jobs.clear();

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
      this.#log('error', 'log', `worker ${this.workerId} ended with ${how}${tail === '' ? '' : `: ${tail}`}`);
    const now = Date.now();
    this.#failures = {
      failures: this.#failures.failures + 1,
      firstAt: this.#failures.failures === 0 ? now : this.#failures.firstAt,
    };
    if (before.at === 'ready') this.#served = true;
    else if (this.#failures.failures > 1) this.#served = false;
    const next = nextAttempt(this.#failures, now, maxRetryTimeout);
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

  #line(stream: 'stdout' | 'stderr', line: string): void {
    if (stream === 'stderr') {
      this.#stderr.push(line);
      if (this.#stderr.length > STDERR_LINES) this.#stderr.shift();
    }
    this.#log(stream === 'stdout' ? 'info' : 'warn', stream, line);
  }

  #log(
    level: 'debug' | 'info' | 'warn' | 'error',
    stream: 'stdout' | 'stderr' | 'log',
    message: string,
    fields?: Readonly<Record<string, unknown>>,
  ): void {
    if (!workerLog.active) return;
    const { name, version } = this.#options.spec;
    workerLog.publish({
      model: name,
      version,
      workerId: this.workerId,
      level,
      stream,
      message,
      ...(fields === undefined ? {} : { fields }),
    });
  }
}

function toError(wire: WireError): ServeError {
  return new ServeError(wire.code, wire.message, {
    reason: wire.reason,
    ...(wire.status === undefined ? {} : { status: wire.status }),
  });
}
