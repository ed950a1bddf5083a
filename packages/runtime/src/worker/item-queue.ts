import type { Item } from './item.js';

/**
 * Items before their run: those that wait to be prepared and those that are. A run takes whole batches, up to `batchSize` rows, and
 * never a batch that is still being prepared.
 */
export class ItemQueue {
  readonly #batchSize: number;
  /** Items of a batch that are not prepared yet. */
  readonly #unprepared = new Map<number, number>();
  #waiting: Item[] = [];
  #prepared: Item[] = [];
  /** Batches made of parts have numbers of their own, below zero. */
  #nextBatch = -1;

  constructor(batchSize: number) {
    this.#batchSize = batchSize;
  }

  /** Parts may be more than a run may hold; a batch is never split, so they come in several. */
  add(batch: number, items: readonly Item[]): void {
    for (let at = 0; at < items.length; at += this.#batchSize) {
      const some = items.length <= this.#batchSize ? items : items.slice(at, at + this.#batchSize);
      const number = at === 0 ? batch : this.#nextBatch--;
      this.#unprepared.set(number, some.length);
      for (const item of some) {
        item.batch = number;
        this.#waiting.push(item);
      }
    }
  }

  /** The next to prepare, as long as a run and the one after it are not full. @param preparing items under way */
  next(preparing: number): Item | undefined {
    return preparing + this.#prepared.length < 2 * this.#batchSize ? this.#waiting.shift() : undefined;
  }

  /** The item can be run. */
  prepared(item: Item): void {
    this.#prepared.push(item);
    this.leave(item);
  }

  /** Its batch waits no longer for the item. */
  leave(item: Item): void {
    const left = (this.#unprepared.get(item.batch) ?? 1) - 1;
    if (left > 0) this.#unprepared.set(item.batch, left);
    else this.#unprepared.delete(item.batch);
  }

  /** Takes back up to `count`, the latest first. Parts of a request stay with the worker that has opened it. */
  recall(count: number): Item[] {
    const back: Item[] = [];
    while (back.length < count && isWhole(this.#waiting.at(-1))) {
      const item = this.#waiting.pop()!;
      this.leave(item);
      back.push(item);
    }
    while (back.length < count && isWhole(this.#prepared.at(-1))) back.push(this.#prepared.pop()!);
    return back;
  }

  /** What the next run takes; undefined when nothing is ready. */
  takeRun(): { readonly items: readonly Item[]; readonly rows: number } | undefined {
    const items: Item[] = [];
    let rows = 0;
    let at = 0;
    while (at < this.#prepared.length) {
      const { batch } = this.#prepared[at]!;
      if (this.#unprepared.has(batch)) break;
      let end = at;
      let more = 0;
      while (end < this.#prepared.length && this.#prepared[end]!.batch === batch) more += this.#prepared[end++]!.rows;
      if (items.length > 0 && rows + more > this.#batchSize) break;
      for (; at < end; at++) items.push(this.#prepared[at]!);
      rows += more;
    }
    if (items.length === 0) return undefined;
    this.#prepared = this.#prepared.slice(at);
    return { items, rows };
  }
}

function isWhole(item: Item | undefined): boolean {
  return item !== undefined && item.joined === undefined;
}
