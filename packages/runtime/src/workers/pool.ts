import type { ServeError } from '../domain/errors.js';
import type { Worker } from './worker.js';

export interface PoolOptions {
  /** Makes the next worker; it is not started yet. */
  readonly create: (changed: (worker: Worker) => void) => Worker;
  /** Milliseconds that a worker may take to finish before it is killed. */
  readonly stopGraceMs: number;
}

/** The workers of one model version. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #workers: Worker[] = [];
  #watchers: Array<() => void> = [];
  #min = 0;
  #max = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get workers(): readonly Worker[] {
    return this.#workers;
  }

  get min(): number {
    return this.#min;
  }

  get max(): number {
    return this.#max;
  }

  get ready(): number {
    return this.#workers.filter((worker) => worker.state.at === 'ready').length;
  }

  /** Adds workers up to `min`, takes away those above `max`; between the two nothing changes. Resolves when the surplus is gone. */
  async scale(min: number, max: number): Promise<void> {
    this.#min = min;
    this.#max = max;
    // A place that was given up is only filled again by removing and adding it.
    while (this.#workers.length < min) {
      const worker = this.#options.create(() => this.#changed());
      this.#workers.push(worker);
      worker.start();
    }
    const surplus = this.#workers.splice(max);
    await Promise.all(surplus.map((worker) => worker.stop(false, this.#options.stopGraceMs)));
  }

  /** Resolves when `min` workers are ready. @throws {ServeError} of the first worker that fails to load */
  async started(): Promise<void> {
    for (;;) {
      if (this.ready >= this.#min) return;
      const failed = this.#workers.find(
        (worker) => worker.lastError !== undefined && worker.state.at !== 'ready' && worker.state.at !== 'starting',
      );
      if (failed?.lastError !== undefined) throw failed.lastError;
      await new Promise<void>((resolve) => this.#watchers.push(resolve));
    }
  }

  lastError(): ServeError | undefined {
    return this.#workers.find((worker) => worker.lastError !== undefined)?.lastError;
  }

  /** @param now true: what runs is not waited for */
  async stop(now: boolean): Promise<void> {
    this.#min = 0;
    this.#max = 0;
    const workers = this.#workers.splice(0);
    this.#changed();
    await Promise.all(workers.map((worker) => worker.stop(now, this.#options.stopGraceMs)));
  }

  #changed(): void {
    const watchers = this.#watchers;
    this.#watchers = [];
    for (const resolve of watchers) resolve();
  }
}
