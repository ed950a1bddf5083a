import { monotonicNow } from '../domain/request.js';
import type { Item } from './item.js';

/** The longest a timer can hold, milliseconds. */
const LONGEST_TIMER = 2_147_483_647;

/**
 * Finds requests whose handler waits for something that never comes. One that hangs must fail alone, while the worker
 * goes on with the others; a handler that blocks the thread is found from outside.
 */
export class StageWatch {
  readonly #limitMs: number;
  readonly #onExpired: (item: Item) => void;
  /** When each began to wait, the first one first. */
  readonly #since = new Map<Item, number>();
  #timer: NodeJS.Timeout | undefined;

  /** @param limit seconds; 0 or less: no limit */
  constructor(limit: number, onExpired: (item: Item) => void) {
    this.#limitMs = Math.min(limit * 1000, LONGEST_TIMER);
    this.#onExpired = onExpired;
  }

  enter(item: Item): void {
    if (this.#limitMs <= 0) return;
    this.#since.delete(item);
    this.#since.set(item, monotonicNow());
    if (this.#timer === undefined) this.#timer = setTimeout(this.#check, this.#limitMs);
  }

  leave(item: Item): void {
    this.#since.delete(item);
  }

  readonly #check = (): void => {
    this.#timer = undefined;
    for (const [item, since] of this.#since) {
      const left = this.#limitMs - (monotonicNow() - since) / 1e6;
      if (left > 1) {
        this.#timer = setTimeout(this.#check, left);
        return;
      }
      this.#since.delete(item);
      this.#onExpired(item);
    }
  };
}
