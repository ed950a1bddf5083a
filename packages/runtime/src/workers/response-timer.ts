import { monotonicNow } from '../domain/request.js';
import type { HeldJobs } from './held-jobs.js';

/** How many times the response timeout a worker that runs nothing may be silent. */
const BLOCKED_FACTOR = 1.25;

/** Finds a worker that is silent for too long. One timer, re-armed for what is left whenever there was progress meanwhile. */
export class ResponseTimer {
  readonly #seconds: number;
  readonly #held: HeldJobs;
  readonly #onSilence: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** @param seconds 0 or less: no limit */
  constructor(seconds: number, held: HeldJobs, onSilence: () => void) {
    this.#seconds = seconds;
    this.#held = held;
    this.#onSilence = onSilence;
  }

  /** Called with every batch that is handed over. */
  arm(limit = this.#seconds): void {
    if (limit <= 0 || this.#timer !== undefined) return;
    const left = limit * 1000 - (monotonicNow() - this.#held.progressAt) / 1e6;
    this.#timer = setTimeout(() => this.#check(), Math.max(1, left));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    this.#timer = undefined;
    const held = this.#held;
    if (held.empty) return;
    if (held.waitsForClients) held.progressAt = monotonicNow();
    // A handler that hangs before its run is found by the worker itself, unless it blocks its thread.
    const limit = this.#seconds * (held.running ? 1 : BLOCKED_FACTOR);
    if (monotonicNow() - held.progressAt < limit * 1e9 - 1e6) this.arm(limit);
    else this.#onSilence();
  }
}
