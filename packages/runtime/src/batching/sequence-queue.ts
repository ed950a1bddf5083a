import type { Job, Sequence, Slot } from './job.js';
import { decide, type PolicyInput, type Release, type SlotLoad } from './policy.js';
import { JobQueue } from './queue.js';

export type NextBatch =
  /** These were taken from their queue for `slot`. */
  | { readonly kind: 'dispatch'; readonly slot: Slot; readonly jobs: readonly Job[]; readonly release: Release }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'idle' };

export type BatchRules = Omit<PolicyInput, 'queued' | 'oldestAge' | 'slots'> & {
  /** When more wait than the workers take next, the latest goes first. */
  readonly newestFirst?: boolean;
};

/** The members that may run now, at most one of each sequence: in a queue for each worker, and one for sequences that have none yet. */
export class SequenceQueue {
  readonly #retiring: ReadonlySet<Slot>;
  readonly #unplaced = new JobQueue();
  readonly #queues = new Map<Slot, JobQueue>();
  /** Sequences that each worker was given. */
  readonly #given = new Map<Slot, number>();

  /** @param retiring workers that take no new sequences */
  constructor(retiring: ReadonlySet<Slot>) {
    this.#retiring = retiring;
  }

  push(job: Job, { slot }: Sequence): void {
    this.#of(slot).push(job);
  }

  remove(job: Job, { slot }: Sequence): void {
    this.#of(slot).remove(job);
  }

  /** The worker is gone. */
  forget(slot: Slot): void {
    this.#queues.delete(slot);
    this.#given.delete(slot);
  }

  /** One worker's batch, by the policy that holds for all requests. */
  next(slots: readonly Slot[], now: number, rules: BatchRules): NextBatch {
    this.#place(slots);
    let wait = Infinity;
    for (const slot of slots) {
      const queue = this.#queues.get(slot);
      const oldest = queue?.peek();
      if (queue === undefined || oldest === undefined) continue;
      const oldestAge = (now - oldest.enqueuedAt) / 1e6;
      const decision = decide(policyInput(rules, queue.length, oldestAge, [{ items: slot.jobs.size }]));
      if (decision.kind === 'wait') wait = Math.min(wait, decision.ms);
      if (decision.kind !== 'dispatch') continue;
      const jobs = Array.from({ length: decision.count }, () => queue.shift()!);
      return { kind: 'dispatch', slot, jobs, release: decision.release };
    }
    return wait === Infinity ? { kind: 'idle' } : { kind: 'wait', ms: wait };
  }

  /** Gives sequences without a worker to those that have the fewest. */
  #place(slots: readonly Slot[]): void {
    if (this.#unplaced.length === 0) return;
    const open = slots.filter((slot) => !this.#retiring.has(slot));
    if (open.length === 0) return;
    for (let job = this.#unplaced.shift(); job !== undefined; job = this.#unplaced.shift()) {
      const slot = open.reduce((best, it) => (this.count(it) < this.count(best) ? it : best));
      job.sequence!.slot = slot;
      this.#given.set(slot, this.count(slot) + 1);
      this.#of(slot).push(job);
    }
  }

  /** Sequences that the worker keeps. */
  count(slot: Slot): number {
    return this.#given.get(slot) ?? 0;
  }

  /** A sequence of the worker has ended. */
  freed(slot: Slot): void {
    this.#given.set(slot, Math.max(0, this.count(slot) - 1));
  }

  #of(slot: Slot | undefined): JobQueue {
    if (slot === undefined) return this.#unplaced;
    let queue = this.#queues.get(slot);
    if (queue === undefined) this.#queues.set(slot, (queue = new JobQueue()));
    return queue;
  }
}

/** Spelt out: spreading an object costs more than everything else that is done for a request here. */
export function policyInput(rules: BatchRules, queued: number, oldestAge: number, slots: readonly SlotLoad[]): PolicyInput {
  const { batchSize, maxBatchDelay, wholeBatch, prefetch, continuous } = rules;
  return { queued, oldestAge, batchSize, maxBatchDelay, wholeBatch, prefetch, continuous, slots };
}
