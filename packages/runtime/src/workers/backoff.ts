/** Seconds to wait before the n-th start in a row without a successful load, TorchServe's ladder. */
const LADDER = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597];
/** Longest pause after deaths of workers that had loaded, seconds: clients may be what kills them, so none is given up for it. */
const LONGEST_AFTER_DEATH = 34;

export interface FailureHistory {
  /** Failures since the last successful load. */
  readonly failures: number;
  /** Milliseconds since the epoch of the first of them. */
  readonly firstAt: number;
}

export type NextAttempt = { readonly kind: 'retry'; readonly seconds: number } | { readonly kind: 'give-up' };

/**
 * What follows a worker's failure.
 * @param window seconds after the first failure in which starts are tried again (`maxRetryTimeoutInSec`)
 */
export function nextAttempt(history: FailureHistory, now: number, window: number): NextAttempt {
  if (history.failures > 0 && now - history.firstAt > window * 1000) return { kind: 'give-up' };
  return { kind: 'retry', seconds: LADDER[Math.min(Math.max(history.failures - 1, 0), LADDER.length - 1)]! };
}

/**
 * Seconds before the next start of a worker that had loaded.
 * @param deaths in a row without an answer in between; the second costs nothing either, since a request that kills is tried twice
 */
export function pauseAfterDeath(deaths: number): number {
  return Math.min(LADDER[Math.min(Math.max(deaths - 2, 0), LADDER.length - 1)]!, LONGEST_AFTER_DEATH);
}
