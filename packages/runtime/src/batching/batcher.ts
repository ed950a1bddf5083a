import { batchDispatched, requestEnded } from '../domain/events.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, type PredictReply, type PredictRequest, type StageTimes } from '../domain/request.js';
import type { Job, Slot } from './job.js';
import { decide } from './policy.js';
import { JobQueue } from './queue.js';

export interface BatcherSettings {
  readonly model: string;
  readonly version: string;
  readonly batchSize: number;
  readonly maxBatchDelay: number | undefined;
  readonly jobQueueSize: number;
  readonly useJobTicket: boolean;
  /** Milliseconds from arrival to the last useful moment of an answer; 0: no limit. */
  readonly clientTimeout: number;
}

/** How long a worker may sit idle while another holds items it has not begun, before they are called back. */
const RECALL_AFTER_MS = 5;

/** The queue of one model version and the loop that hands its items to workers. */
export class Batcher {
  readonly #settings: BatcherSettings;
  readonly #queue = new JobQueue();
  readonly #slots: Slot[] = [];
  #wholeBatch = false;
  #nextId = 1;
  #timer: NodeJS.Timeout | undefined;
  #recallTimer: NodeJS.Timeout | undefined;
  #pumping = false;
  #inFlight = 0;
  #closed: ServeError | undefined;
  #whenEmpty: Array<() => void> = [];

  constructor(settings: BatcherSettings) {
    this.#settings = settings;
  }

  get queued(): number {
    return this.#queue.length;
  }

  /** Accepted and not yet answered, waiting ones included. */
  get pending(): number {
    return this.#inFlight;
  }

  /** Seconds. */
  get oldestAge(): number {
    const oldest = this.#queue.peek();
    return oldest === undefined ? 0 : (monotonicNow() - oldest.enqueuedAt) / 1e9;
  }

  set wholeBatch(value: boolean) {
    this.#wholeBatch = value;
  }

  /**
   * @param unserved why no worker will ever take the request, when that is known already
   * @throws {ServeError} at once when the queue is full or closed; later whatever became of the request
   */
  submit(request: PredictRequest, unserved?: ServeError): Promise<PredictReply> {
    const refusal = this.#refusal(unserved);
    if (refusal !== undefined) {
      this.#publish(request, refusal, monotonicNow(), undefined, 0, undefined, 0);
      return Promise.reject(refusal);
    }
    return new Promise<PredictReply>((resolve, reject) => {
      const now = monotonicNow();
      const timeout = this.#settings.clientTimeout > 0 ? now + this.#settings.clientTimeout * 1e6 : undefined;
      const deadline = request.deadline === undefined ? timeout : Math.min(request.deadline, timeout ?? Infinity);
      const job: Job = { id: this.#nextId++, request, enqueuedAt: now, deadline, state: { at: 'queue' }, resolve, reject };
      this.#inFlight++;
      this.#queue.push(job);
      if (request.signal !== undefined || deadline !== undefined) this.#watch(job);
      this.pump();
    });
  }

  attach(slot: Slot): void {
    this.#slots.push(slot);
    this.pump();
  }

  /** Takes a worker out; its unanswered items are returned to the caller. */
  detach(slot: Slot): Job[] {
    const at = this.#slots.indexOf(slot);
    if (at >= 0) this.#slots.splice(at, 1);
    slot.accepting = false;
    const left = [...slot.jobs];
    slot.jobs.clear();
    return left;
  }

  /** Items that a worker has not begun go back to their place in the queue. */
  putBack(jobs: readonly Job[]): void {
    const live = jobs.filter((job) => job.state.at === 'worker');
    for (const job of live) {
      if (job.state.at === 'worker') job.state.slot.jobs.delete(job);
      job.state = { at: 'queue' };
    }
    if (live.length > 0) this.#queue.putBack(live);
    this.pump();
  }

  succeed(job: Job, reply: PredictReply): void {
    if (!this.#settle(job)) return;
    const bytes = Buffer.isBuffer(reply.body) ? reply.body.length : 0;
    this.#publish(job.request, undefined, job.enqueuedAt, reply.stages, reply.batchSize, reply.workerId, bytes, reply.status);
    job.resolve(reply);
  }

  /** The end of an answer whose stream was handed out before. */
  streamed(job: Job, end: { stages: StageTimes; status: number; bytes: number; workerId: string }): void {
    if (!this.#settle(job)) return;
    this.#publish(job.request, undefined, job.enqueuedAt, end.stages, 1, end.workerId, end.bytes, end.status);
  }

  fail(job: Job, error: ServeError, stages?: StageTimes, batchSize = 0): void {
    const workerId = job.state.at === 'worker' ? job.state.slot.workerId : undefined;
    if (!this.#settle(job)) return;
    this.#publish(job.request, error, job.enqueuedAt, stages, batchSize, workerId, 0);
    job.reject(error);
  }

  /** Refuses what comes and fails what waits; what workers hold is finished. */
  close(error: ServeError, failWaiting: boolean): void {
    this.#closed = error;
    if (failWaiting) this.failWaiting(error);
  }

  /** Resolves when nothing is accepted and unanswered. */
  async empty(): Promise<void> {
    if (this.#inFlight === 0) return;
    await new Promise<void>((resolve) => this.#whenEmpty.push(resolve));
  }

  /** Hands over whatever can go now. Called after every change. */
  pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      while (this.#step());
    } finally {
      this.#pumping = false;
    }
    if (this.#queue.length === 0) this.#considerRecall();
  }

  #step(): boolean {
    const oldest = this.#queue.peek();
    if (oldest === undefined) return false;
    if (oldest.request.kind === 'describe') return this.#dispatchAlone(oldest);
    const slots = this.#slots.filter((slot) => slot.accepting);
    const decision = decide({
      queued: this.#queue.length,
      oldestAge: (monotonicNow() - oldest.enqueuedAt) / 1e6,
      batchSize: this.#settings.batchSize,
      maxBatchDelay: this.#settings.maxBatchDelay,
      wholeBatch: this.#wholeBatch,
      prefetch: this.#settings.useJobTicket ? 0 : 1,
      slots: slots.map((slot) => ({ items: slot.jobs.size })),
    });
    switch (decision.kind) {
      case 'idle':
        return false;
      case 'wait':
        this.#timer = setTimeout(() => this.pump(), Math.ceil(decision.ms));
        return false;
      case 'dispatch': {
        const jobs: Job[] = [];
        while (jobs.length < decision.count) {
          const job = this.#queue.peek();
          if (job === undefined || job.request.kind === 'describe') break;
          jobs.push(this.#queue.shift()!);
        }
        this.#dispatch(slots[decision.slot]!, jobs, decision.release);
        return true;
      }
    }
  }

  /** A describe request asks the handler about itself and never shares a batch. */
  #dispatchAlone(job: Job): boolean {
    const slot = this.#slots.filter((it) => it.accepting).sort((a, b) => a.jobs.size - b.jobs.size)[0];
    if (slot === undefined) return false;
    this.#queue.shift();
    this.#dispatch(slot, [job], 'idle');
    return true;
  }

  #dispatch(slot: Slot, jobs: readonly Job[], release: 'full' | 'delay' | 'idle' | 'prefetch'): void {
    if (slot.jobs.size === 0) slot.progressAt = monotonicNow();
    for (const job of jobs) {
      job.state = { at: 'worker', slot, running: false };
      slot.jobs.add(job);
    }
    if (batchDispatched.active) {
      const { model, version } = this.#settings;
      batchDispatched.publish({ model, version, workerId: slot.workerId, items: jobs.length, release });
    }
    slot.send(jobs);
  }

  /** An idle worker takes over what a busy one holds and has not begun. */
  #considerRecall(): void {
    if (this.#recallTimer !== undefined || this.#slots.length < 2) return;
    const victim = this.#recallVictim();
    if (victim === undefined) return;
    this.#recallTimer = setTimeout(() => {
      this.#recallTimer = undefined;
      if (this.#queue.length > 0) return;
      const still = this.#recallVictim();
      if (still === undefined) return;
      if (monotonicNow() - still.progressAt < RECALL_AFTER_MS * 1e6) return this.#considerRecall();
      still.recall(Math.max(1, Math.floor(waitingItems(still) / 2)));
    }, RECALL_AFTER_MS);
  }

  #recallVictim(): Slot | undefined {
    if (!this.#slots.some((slot) => slot.accepting && slot.jobs.size === 0)) return undefined;
    let victim: Slot | undefined;
    for (const slot of this.#slots) {
      if (slot.jobs.size > 1 && waitingItems(slot) > (victim === undefined ? 0 : waitingItems(victim))) victim = slot;
    }
    return victim;
  }

  /** Answers what waits, because no worker can take it. */
  failWaiting(error: ServeError): void {
    for (const job of this.#queue.drain()) this.fail(job, error);
  }

  #refusal(unserved: ServeError | undefined): ServeError | undefined {
    const { model, version, jobQueueSize, useJobTicket } = this.#settings;
    if (this.#closed !== undefined) return this.#closed;
    if (unserved !== undefined) return unserved;
    if (useJobTicket && (this.#queue.length > 0 || !this.#slots.some((slot) => slot.accepting && slot.jobs.size === 0))) {
      return new ServeError(
        'QUEUE_FULL',
        `Model "${model}" version ${version} has no free worker and useJobTicket accepts no waiting requests.`,
        {
          retryAfter: 1,
        },
      );
    }
    if (this.#queue.length >= jobQueueSize) {
      return new ServeError(
        'QUEUE_FULL',
        `The queue of model "${model}" version ${version} is full: ${this.#queue.length} requests wait, the limit is ${jobQueueSize} (jobQueueSize in model-config.yaml, job_queue_size in config.properties).`,
        { retryAfter: 1 },
      );
    }
    return undefined;
  }

  /** Ends a job early when its client leaves or its deadline passes, wherever it is. */
  #watch(job: Job): void {
    const { signal } = job.request;
    let timer: NodeJS.Timeout | undefined;
    const leave = () =>
      this.#abandon(job, new ServeError('CANCELLED', 'The client closed the connection before the answer was ready.'));
    if (signal?.aborted === true) {
      leave();
      return;
    }
    signal?.addEventListener('abort', leave, { once: true });
    if (job.deadline !== undefined) {
      const ms = Math.max(0, (job.deadline - monotonicNow()) / 1e6);
      timer = setTimeout(() => {
        const waited = Math.round((monotonicNow() - job.enqueuedAt) / 1e6);
        const where = job.state.at === 'queue' ? 'in the queue' : 'at a worker';
        this.#abandon(
          job,
          new ServeError(
            'DEADLINE_EXCEEDED',
            `The request expired ${where} after ${waited} ms (clientTimeoutInMills or the request's deadline).`,
          ),
        );
      }, ms);
    }
    const { resolve, reject } = job;
    const done = () => {
      signal?.removeEventListener('abort', leave);
      clearTimeout(timer);
    };
    Object.assign(job, {
      resolve: (reply: PredictReply) => {
        done();
        resolve(reply);
      },
      reject: (error: ServeError) => {
        done();
        reject(error);
      },
    });
  }

  #abandon(job: Job, error: ServeError): void {
    switch (job.state.at) {
      case 'settled':
        return;
      case 'queue':
        this.#queue.remove(job);
        break;
      case 'worker':
        // The worker still answers for it, so it keeps its place in the slot until then.
        job.state.slot.cancel(job);
        this.#release(job, error);
        return;
    }
    this.fail(job, error);
    this.pump();
  }

  /** Answers the client while the worker goes on holding the item. */
  #release(job: Job, error: ServeError): void {
    const slot = job.state.at === 'worker' ? job.state.slot : undefined;
    this.fail(job, error);
    slot?.jobs.add(job);
  }

  #settle(job: Job): boolean {
    if (job.state.at === 'settled') return false;
    if (job.state.at === 'worker') job.state.slot.jobs.delete(job);
    job.state = { at: 'settled' };
    this.#inFlight--;
    if (this.#inFlight === 0 && this.#whenEmpty.length > 0) {
      const waiting = this.#whenEmpty;
      this.#whenEmpty = [];
      for (const resolve of waiting) resolve();
    }
    return true;
  }

  #publish(
    request: PredictRequest,
    error: ServeError | undefined,
    since: number,
    stages: StageTimes | undefined,
    batchSize: number,
    workerId: string | undefined,
    responseBytes: number,
    status?: number,
  ): void {
    if (!requestEnded.active || request.kind === 'describe') return;
    requestEnded.publish({
      model: this.#settings.model,
      version: this.#settings.version,
      requestedVersion: request.modelVersion,
      requestId: request.id,
      outcome: error === undefined ? 'ok' : error.code,
      reason: error?.reason,
      status: status ?? error?.status,
      stages,
      totalNs: monotonicNow() - since,
      batchSize,
      workerId,
      responseBytes,
    });
  }
}

function waitingItems(slot: Slot): number {
  let waiting = 0;
  for (const job of slot.jobs) if (job.state.at === 'worker' && !job.state.running) waiting++;
  return waiting;
}
