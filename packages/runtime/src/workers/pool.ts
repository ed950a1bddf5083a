import { ServeError } from '../domain/errors.js';
import type { Worker } from './worker.js';

export interface PoolOptions {
  /** Makes the next worker; it is not started yet. */
  readonly create: (changed: (worker: Worker) => void, spare: boolean) => Worker;
  /** Milliseconds that a worker may take to finish before it is killed. */
  readonly stopGraceMs: number;
  /** Loaded workers that wait for another one to fail. */
  readonly spareWorkers?: number;
  /** What will be asked for; none is started before `scale`. */
  readonly min?: number;
  readonly max?: number;
}

/** The workers of one model version. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #workers: Worker[] = [];
  #watchers: Array<() => void> = [];
  #min = 0;
  #max = 0;
  #stopped = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#min = options.min ?? 0;
    this.#max = options.max ?? 0;
  }

  /** Spare ones too. */
  get workers(): readonly Worker[] {
    return this.#workers;
  }

  /** Those that take requests when they are ready. */
  get active(): Worker[] {
    return this.#workers.filter((worker) => !worker.spare);
  }

  get min(): number {
    return this.#min;
  }

  get max(): number {
    return this.#max;
  }

  get ready(): number {
    return this.active.filter(isReady).length;
  }

  /** Seconds that loading the model takes, the longest of the latest loads; undefined: none has loaded yet. */
  get loadSeconds(): number | undefined {
    const all = this.#workers.flatMap(({ loadSeconds }) => loadSeconds ?? []);
    return all.length === 0 ? undefined : Math.max(...all);
  }

  /**
   * Adds workers up to `min`, takes away those above `max`; between the two nothing changes. Who was given up, or waits for the next
   * start, is started again. Resolves when the surplus is gone.
   */
  async scale(min: number, max: number): Promise<void> {
    if (this.#stopped) return;
    this.#min = min;
    this.#max = max;
    const surplus = this.#takeSurplus();
    for (const worker of this.#workers) worker.revive();
    while (this.active.length < min) {
      const spare = this.#workers.find((worker) => worker.spare && isReady(worker));
      if (spare === undefined) this.#add(false);
      else spare.promote();
    }
    const unneeded = this.#fillSpares();
    await Promise.all([...surplus, ...unneeded].map((worker) => worker.stop(false, this.#options.stopGraceMs)));
  }

  /** Goes back to what held before a scaling that failed. Those that serve stay. */
  async restore(min: number, max: number): Promise<void> {
    if (this.#stopped) return;
    this.#min = min;
    this.#max = max;
    await Promise.all(this.#takeSurplus().map((worker) => worker.stop(false, this.#options.stopGraceMs)));
  }

  /** Resolves when `min` workers are ready. @throws {ServeError} of the first worker that fails to load */
  async started(): Promise<void> {
    for (;;) {
      if (this.#stopped)
        throw new ServeError('CONFLICT', 'The model was unregistered while its workers were starting; register it again.');
      if (this.ready >= this.#min) return;
      const failed = this.active.find(
        (worker) => worker.lastError !== undefined && worker.state.at !== 'ready' && worker.state.at !== 'starting',
      );
      if (failed?.lastError !== undefined) throw failed.lastError;
      await new Promise<void>((resolve) => this.#watchers.push(resolve));
    }
  }

  lastError(): ServeError | undefined {
    return this.#workers.find((worker) => worker.lastError !== undefined)?.lastError;
  }

  /** @param now true: what runs is not waited for; else for so many milliseconds at most */
  async stop(now: boolean, graceMs = this.#options.stopGraceMs): Promise<void> {
    this.#min = 0;
    this.#max = 0;
    this.#stopped = true;
    const workers = this.#workers.splice(0);
    this.#changed();
    await Promise.all(workers.map((worker) => worker.stop(now, graceMs)));
  }

  #add(spare: boolean): void {
    const worker = this.#options.create(() => this.#changed(), spare);
    this.#workers.push(worker);
    worker.start();
  }

  /** Takes out what is above `max`: first those that do not serve, the youngest first. */
  #takeSurplus(): Worker[] {
    const { active } = this;
    const count = active.length - this.#max;
    if (count <= 0) return [];
    const order = [...active.filter((worker) => !isReady(worker)).reverse(), ...active.filter(isReady).reverse()];
    return order.slice(0, count).map((worker) => this.#take(worker));
  }

  /** As many spare ones as are wanted, none for a model without workers. @returns those that are too many */
  #fillSpares(): Worker[] {
    const wanted = this.#min === 0 ? 0 : (this.#options.spareWorkers ?? 0);
    const spares = () => this.#workers.filter((worker) => worker.spare);
    while (spares().length < wanted) this.#add(true);
    return spares()
      .slice(wanted)
      .map((worker) => this.#take(worker));
  }

  #take(worker: Worker): Worker {
    this.#workers.splice(this.#workers.indexOf(worker), 1);
    return worker;
  }

  /** A spare worker takes the place of one that is lost, which is the spare one when it is back. */
  #coverLosses(): void {
    for (const lost of this.#workers) {
      if (lost.spare || (lost.state.at !== 'waiting' && lost.state.at !== 'gave-up')) continue;
      const spare = this.#workers.find((worker) => worker.spare && isReady(worker));
      if (spare === undefined) return;
      lost.demote();
      spare.promote();
    }
  }

  #changed(): void {
    if ((this.#options.spareWorkers ?? 0) > 0) this.#coverLosses();
    const watchers = this.#watchers;
    this.#watchers = [];
    for (const resolve of watchers) resolve();
  }
}

function isReady(worker: Worker): boolean {
  return worker.state.at === 'ready';
}
