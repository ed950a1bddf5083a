import { monotonicNow } from '../domain/request.js';
import type { Slot } from './job.js';

/** How long a worker may sit idle while another holds items it has not begun, before they are called back. */
const RECALL_AFTER_MS = 5;

/** Lets an idle worker take over what a busy one holds and has not begun. */
export class Recall {
  readonly #slots: readonly Slot[];
  readonly #queued: () => number;
  #timer: NodeJS.Timeout | undefined;

  constructor(slots: readonly Slot[], queued: () => number) {
    this.#slots = slots;
    this.#queued = queued;
  }

  /** Called whenever nothing is left to hand over. */
  consider(): void {
    if (this.#timer !== undefined || this.#slots.length < 2 || this.#victim() === undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#queued() > 0) return;
      const victim = this.#victim();
      if (victim === undefined) return;
      if (monotonicNow() - victim.progressAt < RECALL_AFTER_MS * 1e6) return this.consider();
      victim.recall(Math.max(1, Math.floor(waitingItems(victim) / 2)));
    }, RECALL_AFTER_MS);
  }

  /** The worker with the most items that wait, while another has none. */
  #victim(): Slot | undefined {
    if (!this.#slots.some((slot) => slot.accepting && slot.jobs.size === 0)) return undefined;
    let victim: Slot | undefined;
    for (const slot of this.#slots) {
      if (slot.jobs.size > 1 && waitingItems(slot) > (victim === undefined ? 0 : waitingItems(victim))) victim = slot;
    }
    return victim;
  }
}

function waitingItems(slot: Slot): number {
  let waiting = 0;
  for (const job of slot.jobs) if (job.state.at === 'worker' && !job.state.running) waiting++;
  return waiting;
}
