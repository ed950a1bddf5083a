import type { LoadFailurePolicy } from '../domain/load-failure.js';
import { type FailureHistory, type NextAttempt, nextAttempt, pauseAfterDeath } from './backoff.js';

/** A process that lived so long after its load did not die of the load. Milliseconds. */
const STABLE_MS = 60_000;

/** What has gone wrong with one worker since it served last. Times are milliseconds since the epoch. */
export class Failures {
  /** A start has failed since it served. */
  startFailed = false;
  /** Its first start, or when it stopped serving. */
  downSince: number;
  /** The process that runs has answered something. */
  answered = false;
  #history: FailureHistory = { failures: 0, firstAt: 0 };
  /** In a row, of processes that had loaded and had answered nothing. */
  #deaths = 0;
  #told: string | undefined;
  readonly #window: number;
  readonly #policy: LoadFailurePolicy;

  /** @param window seconds in which starts are tried again (`maxRetryTimeoutInSec`) */
  constructor(window: number, policy: LoadFailurePolicy, now: number) {
    this.#window = window;
    this.#policy = policy;
    this.downSince = now;
  }

  /** Since the last load. */
  get count(): number {
    return this.#history.failures;
  }

  loaded(): void {
    this.#history = { failures: 0, firstAt: 0 };
    this.#told = undefined;
    this.startFailed = false;
    this.answered = false;
  }

  /** Somebody asked for a new beginning. */
  forget(now: number): void {
    this.loaded();
    this.#deaths = 0;
    this.downSince = now;
  }

  /** A process ended that nobody had asked to. @param readySince since when it served; undefined: it was loading */
  ended(readySince: number | undefined, now: number): NextAttempt {
    const { failures, firstAt } = this.#history;
    this.#history = { failures: failures + 1, firstAt: failures === 0 ? now : firstAt };
    const next = nextAttempt(this.#history, now, this.#window);
    if (readySince === undefined) {
      this.startFailed = true;
      return this.#policy === 'give-up' ? { kind: 'give-up' } : next;
    }
    this.downSince = now;
    this.#deaths = this.answered || now - readySince > STABLE_MS ? 1 : this.#deaths + 1;
    return next.kind === 'give-up' ? next : { kind: 'retry', seconds: Math.max(next.seconds, pauseAfterDeath(this.#deaths)) };
  }

  /** The same stack again and again would fill the log of a model that is retried for long. */
  shown({ message, stack }: { readonly message: string; readonly stack?: string | undefined }): string {
    if (this.#told === message) return `again: ${message}`;
    this.#told = message;
    return stack ?? message;
  }
}
