import { batchDispatched } from '../domain/events.js';
import type { ServeError } from '../domain/errors.js';
import { monotonicNow, type PredictReply, type PredictRequest, type SequenceMark, type StageTimes } from '../domain/request.js';
import { publishEnd } from './ended.js';
import type { Job, Slot } from './job.js';
import { nextBatch } from './next-batch.js';
import type { Release } from './policy.js';
import { JobQueue } from './queue.js';
import { Recall } from './recall.js';
import { queueFull, ticketless } from './refusals.js';
import type { SequenceSettings } from './sequence.js';
import { Sequences } from './sequences.js';
import { LONGEST_TIMER, watch } from './watch.js';

export interface BatcherSettings {
  readonly model: string;
  readonly version: string;
  readonly batchSize: number;
  readonly maxBatchDelay: number | undefined;
  readonly jobQueueSize: number;
  readonly useJobTicket: boolean;
  /** When more wait than the workers take next, the latest goes first. */
  readonly newestFirst?: boolean;
  /** Milliseconds from arrival to the last useful moment of an answer; 0: no limit. */
  readonly clientTimeout: number;
  /** Requests belong to sequences; undefined: each stands for itself. */
  readonly sequences?: SequenceSettings | undefined;
}

/** The queue of one model version and the loop that hands its items to workers. */
export class Batcher {
  readonly #settings: BatcherSettings;
  readonly #queue = new JobQueue();
  readonly #slots: Slot[] = [];
  readonly #sequences: Sequences | undefined;
  #wholeBatch = false;
  #continuous = false;
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
    if (settings.sequences === undefined) return;
    const { model, version } = settings;
    this.#sequences = new Sequences({
      settings: { model, version, ...settings.sequences },
      fail: (job, error) => this.fail(job, error),
      changed: () => this.#pumpSoon(),
    });
  }

  get queued(): number {
    return this.#sequences === undefined ? this.#queue.length : this.#queue.length + this.#sequences.waiting;
  }

  /** Sequences that have a place now; undefined for a model without sequences. */
  get activeSequences(): number | undefined {
    return this.#sequences?.size;
  }

  /** Accepted and not yet answered, waiting ones included. */
  get pending(): number {
    return this.#inFlight;
  }

  /** Seconds. */
  get oldestAge(): number {
    const since = Math.min(this.#queue.peek()?.enqueuedAt ?? Infinity, this.#sequences?.oldestAt ?? Infinity);
    return since === Infinity ? 0 : (monotonicNow() - since) / 1e9;
  }

  set wholeBatch(value: boolean) {
    this.#wholeBatch = value;
  }

  set continuous(value: boolean) {
    this.#continuous = value;
  }

  /**
   * @param unserved why no worker will ever take the request, when that is known already
   * @throws {ServeError} at once when the queue is full or closed; later whatever became of the request
   */
  submit(request: PredictRequest, unserved?: ServeError): Promise<PredictReply> {
    // What came in this turn and can go to a worker does not count as waiting.
    if (this.#pumpScheduled && (this.#queue.length >= this.#settings.jobQueueSize || this.#asksNow)) this.pump();
    const refusal = this.#refusal(request, unserved);
    if (refusal !== undefined) {
      publishEnd(this.#settings, { request, since: monotonicNow(), error: refusal });
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
        sequence: undefined,
        unwatch: undefined,
        resolve,
        reject,
      };
      this.#inFlight++;
      const mark = this.#markOf(request);
      if (mark === undefined) this.#queue.push(job);
      else this.#sequences!.add(job, mark);
      if (request.client !== undefined || deadline !== undefined) watch(job, this.#abandon);
      this.#pumpSoon();
    });
  }

  /** Whether there is room depends on what goes to a worker in this turn. */
  get #asksNow(): boolean {
    return this.#settings.useJobTicket || this.#sequences !== undefined;
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
    this.#sequences?.detach(slot);
    const left = [...slot.jobs];
    slot.jobs.clear();
    return left;
  }

  /** The worker is to stop and gets no new sequences. @returns true as long as it has some, whose members it still gets */
  retire(slot: Slot): boolean {
    return this.#sequences?.retire(slot) ?? false;
  }

  /** A worker has answered an item, or dropped it. */
  released(job: Job, ok: boolean): void {
    if (job.sequence !== undefined) this.#sequences!.released(job, ok);
  }

  /** Items that a worker has not begun go back to their place in the queue. */
  putBack(jobs: readonly Job[]): void {
    if (this.#sequences !== undefined) {
      for (const job of jobs) {
        if (job.state.at === 'worker') job.state.slot.jobs.delete(job);
        if (job.sequence !== undefined) this.#sequences.putBack(job);
      }
    }
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
    const { stages, batchSize, workerId, status } = reply;
    publishEnd(this.#settings, { request: job.request, since: job.enqueuedAt, stages, batchSize, workerId, bytes, status });
    job.resolve(reply);
  }

  /** The end of an answer whose stream was handed out before. */
  streamed(job: Job, end: { stages: StageTimes; status: number; bytes: number; workerId: string }): void {
    if (!this.#settle(job)) return;
    publishEnd(this.#settings, { request: job.request, since: job.enqueuedAt, batchSize: 1, ...end });
  }

  fail(job: Job, error: ServeError, stages?: StageTimes, batchSize = 0): void {
    const workerId = job.state.at === 'worker' ? job.state.slot.workerId : undefined;
    if (!this.#settle(job)) return;
    publishEnd(this.#settings, { request: job.request, since: job.enqueuedAt, error, stages, batchSize, workerId });
    job.reject(error);
  }

  /** Refuses what comes; with `failWaiting` also what waits and what workers give back. What they run is finished. */
  close(error: ServeError, failWaiting: boolean): void {
    this.#closed = error;
    this.#ended = failWaiting;
    if (failWaiting) this.failWaiting(error);
    this.#sequences?.close(failWaiting ? error : undefined);
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
    if (this.#queue.length === 0 && this.#sequences === undefined) this.#recall.consider();
  }

  #step(): boolean {
    const { batchSize, maxBatchDelay, useJobTicket, newestFirst = false } = this.#settings;
    const next = nextBatch(this.#queue, this.#sequences?.queue, this.#slots, {
      batchSize,
      maxBatchDelay,
      wholeBatch: this.#wholeBatch,
      prefetch: useJobTicket ? 0 : 1,
      continuous: this.#continuous,
      newestFirst,
    });
    switch (next.kind) {
      case 'idle':
        return false;
      case 'wait':
        this.#timer = setTimeout(() => this.pump(), Math.min(Math.ceil(next.ms), LONGEST_TIMER));
        return false;
      case 'dispatch':
        for (const job of next.jobs) this.#sequences?.handed(job, next.slot);
        this.#dispatch(next.slot, next.jobs, next.release);
        return true;
    }
  }

  #dispatch(slot: Slot, jobs: readonly Job[], release: Release): void {
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
    this.#sequences?.failUnplaced(error);
  }

  #refusal(request: PredictRequest, unserved: ServeError | undefined): ServeError | undefined {
    if (this.#closed !== undefined) return this.#closed;
    const mark = this.#markOf(request);
    if (unserved !== undefined && !(mark !== undefined && this.#sequences!.placed(mark.id))) return unserved;
    const { useJobTicket, jobQueueSize } = this.#settings;
    const waiting = this.queued;
    const noTicket = useJobTicket && (waiting > 0 || !this.#slots.some((slot) => slot.accepting && slot.jobs.size === 0));
    if (noTicket) return ticketless(this.#settings);
    if (waiting >= jobQueueSize) return queueFull(this.#settings, waiting);
    return mark === undefined ? undefined : this.#sequences!.refusal(mark);
  }

  #markOf(request: PredictRequest): SequenceMark | undefined {
    return this.#sequences === undefined || request.kind === 'describe' ? undefined : request.sequence;
  }

  readonly #abandon = (job: Job, error: ServeError): void => {
    switch (job.state.at) {
      case 'settled':
        return;
      case 'queue':
        if (job.sequence !== undefined) {
          this.fail(job, error);
          this.#sequences!.abandoned(job);
          return;
        }
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
}
