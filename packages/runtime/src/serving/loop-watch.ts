/** How late the front's timers were, and when. Milliseconds. */
export interface Lateness {
  readonly at: number;
  readonly ms: number;
}

const PERIOD_MS = 500;
const WINDOW_MS = 30_000;
/** One long pause says nothing: a machine was suspended, a process was looked at. */
const MOST_OF_ONE_MS = 10_000;
const LIMIT_MS = 20_000;

/** @returns a sentence when the event loop was blocked for most of the last half minute, by several pauses */
export function blockedFor(lateness: readonly Lateness[], now: number): string | undefined {
  const recent = lateness.filter(({ at }) => now - at <= WINDOW_MS);
  const blocked = recent.reduce((sum, { ms }) => sum + Math.min(ms, MOST_OF_ONE_MS), 0);
  if (blocked <= LIMIT_MS) return undefined;
  return `the front's event loop was blocked for ${Math.round(blocked / 1000)} s of the last ${WINDOW_MS / 1000} s`;
}

/** Watches the event loop of this process: a front that cannot keep its timers cannot serve. */
export class LoopWatch {
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #late: Lateness[] = [];
  #due: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#due = now() + PERIOD_MS;
    this.#timer = setInterval(() => this.tick(), PERIOD_MS);
    this.#timer.unref();
  }

  tick(): void {
    const at = this.#now();
    const ms = at - this.#due;
    this.#due = at + PERIOD_MS;
    if (ms < PERIOD_MS) return;
    this.#late = [...this.#late.filter((it) => at - it.at <= WINDOW_MS), { at, ms }];
  }

  /** Why the front cannot serve; undefined: it can. */
  blocked(): string | undefined {
    return this.#late.length === 0 ? undefined : blockedFor(this.#late, this.#now());
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
