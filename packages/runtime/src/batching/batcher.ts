import { batchDispatched, requestEnded } from '../domain/events.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, type PredictReply, type PredictRequest, type StageTimes } from '../domain/request.js';
import type { Job, Slot } from './job.js';
import { decide } from './policy.js';
import { JobQueue } from './queue.js';
import { Recall } from './recall.js';
import { LONGEST_TIMER, watch } from './watch.js';

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

/** The queue of one model version and the loop that hands its items to workers. */
export class Batcher {
  readonly #settings: BatcherSettings;
  readonly #queue = new JobQueue();
  readonly #slots: Slot[] = [];
  #wholeBatch = false;
  #nextId = 1;
  #timer: NodeJS.Timeout | undefined;
  readonly #recall = new Recall(this.#slots, () => this.#queue.length);
  #pumping = false;
  #pumpScheduled = false;
  #inFlight = 0;
  #closed: ServeError | undefined;
  /** What comes back from a worker is refused too. */
  #ended = false;
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
    // What came in this turn and can go to a worker does not count as waiting.
    if (this.#pumpScheduled && (this.#queue.length >= this.#settings.jobQueueSize || this.#settings.useJobTicket)) this.pump();
    const refusal = this.#refusal(unserved);
    if (refusal !== undefined) {
      this.#publish(request, refusal, monotonicNow(), undefined, 0, undefined, 0);
      return Promise.reject(refusal);
    }
    return new Promise<PredictReply>((resolve, reject) => {
      const now = monotonicNow();
      const timeout = this.#settings.clientTimeout > 0 ? now + this.#settings.clientTimeout * 1e6 : undefined;
      const deadline = request.deadline === undefined ? timeout : Math.min(request.deadline, timeout ?? Infinity);
      const id = this.#nextId++;
      const job: Job = {
        id,
        request,
        enqueuedAt: now,
        deadline,
        state: { at: 'queue' },
        suspect: false,
        unwatch: undefined,
        resolve,
        reject,
      };
      this.#inFlight++;
      this.#queue.push(job);
      if (request.client !== undefined || deadline !== undefined) watch(job, this.#abandon);
      this.#pumpSoon();
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
    if (this.#ended && this.#closed !== undefined) this.failWaiting(this.#closed);
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

  /** Refuses what comes; with `failWaiting` also what waits and what workers give back. What they run is finished. */
  close(error: ServeError, failWaiting: boolean): void {
    this.#closed = error;
    this.#ended = failWaiting;
    if (failWaiting) this.failWaiting(error);
  }

  /** Resolves when nothing is accepted and unanswered. */
  async empty(): Promise<void> {
    if (this.#inFlight === 0) return;
    await new Promise<void>((resolve) => this.#whenEmpty.push(resolve));
  }

  /** What arrives in one turn of the event loop is handed over together: a frame for each costs more than the turn. */
  #pumpSoon(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    setImmediate(() => {
      this.#pumpScheduled = false;
      this.pump();
    });
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
    if (this.#queue.length === 0) this.#recall.consider();
  }

  #step(): boolean {
    const oldest = this.#queue.peek();
    if (oldest === undefined) return false;
    const slots = this.#slots.filter((slot) => slot.accepting && !holdsSuspect(slot));
    if (oldest.suspect)
      return this.#dispatchAlone(
        oldest,
        slots.find((slot) => slot.jobs.size === 0),
      );
    if (oldest.request.kind === 'describe')
      return this.#dispatchAlone(oldest, slots.sort((a, b) => a.jobs.size - b.jobs.size)[0]);
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
        this.#timer = setTimeout(() => this.pump(), Math.min(Math.ceil(decision.ms), LONGEST_TIMER));
        return false;
      case 'dispatch': {
        const jobs: Job[] = [];
        while (jobs.length < decision.count) {
          const job = this.#queue.peek();
          if (job === undefined || job.suspect || job.request.kind === 'describe') break;
          jobs.push(this.#queue.shift()!);
        }
        this.#dispatch(slots[decision.slot]!, jobs, decision.release);
        return true;
      }
    }
  }

  /** A describe request asks the handler about itself and shares no batch; a suspect has a worker to itself. */
  #dispatchAlone(job: Job, slot: Slot | undefined): boolean {
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

  readonly #abandon = (job: Job, error: ServeError): void => {
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
  };

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
    job.unwatch?.();
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

function holdsSuspect(slot: Slot): boolean {
  if (slot.jobs.size !== 1) return false;
  for (const job of slot.jobs) return job.suspect;
  return false;
}
