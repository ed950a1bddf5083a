/** Choices that are the same for the same seed (mulberry32 over an FNV hash of the seed's text). */
export class Random {
  #state: number;

  constructor(seed: string) {
    let hash = 0x811c9dc5;
    for (const byte of Buffer.from(seed)) hash = Math.imul(hash ^ byte, 0x01000193);
    this.#state = hash >>> 0;
  }

  /** From 0 to below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    const state = this.#state;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `least` to `most`. */
  int(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(values: readonly T[]): T {
    const value = values[this.int(0, values.length - 1)];
    if (value === undefined) throw new Error('nothing to pick from');
    return value;
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.int(0, 255)));
  }

  list<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.int(0, most) }, make);
  }
}
