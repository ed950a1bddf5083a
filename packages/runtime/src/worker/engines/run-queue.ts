import { openSync, readSync } from 'node:fs';

/**
 * How long the calling thread was ready to run and had no core, as the Linux kernel counts it. The time of a run without that is what
 * the run itself costs, however busy the machine is.
 */
export class RunQueue {
  readonly #file: number | undefined;
  readonly #buffer = Buffer.alloc(96);

  /** To be made in the thread that is meant. */
  constructor(path = '/proc/thread-self/schedstat') {
    try {
      this.#file = openSync(path, 'r');
    } catch {
      // Other systems, and kernels without these statistics.
    }
  }

  /** Nanoseconds since the thread began; always 0 where nobody counts. */
  waited(): number {
    if (this.#file === undefined) return 0;
    try {
      const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0);
      return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1]) || 0;
    } catch {
      return 0;
    }
  }
}
