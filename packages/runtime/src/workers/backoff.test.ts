import { describe, expect, it } from 'vitest';
import { nextAttempt, pauseAfterDeath } from './backoff.js';

const after = (failures: number, elapsedMs = 0, window = 300) =>
  nextAttempt({ failures, firstAt: 1000 }, 1000 + elapsedMs, window);

describe('the next start', () => {
  it('follows the ladder and stays on its last step', () => {
    const waits = Array.from({ length: 20 }, (_, i) => after(i + 1)).map((it) => (it.kind === 'retry' ? it.seconds : -1));
    expect(waits).toEqual([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 1597, 1597]);
  });

  it.each([
    [300_000, 'retry'],
    [300_001, 'give-up'],
  ])('%i ms after the first failure: %s', (elapsed, kind) => {
    expect(after(5, elapsed).kind).toBe(kind);
  });

  it('a window of nothing still allows the first retry', () => {
    expect(after(1, 0, 0)).toEqual({ kind: 'retry', seconds: 0 });
    expect(after(2, 1, 0).kind).toBe('give-up');
  });
});

it.each([
  [1, 0],
  [2, 0],
  [3, 1],
  [6, 3],
  [40, 34],
])('after %s deaths without an answer the pause is %s s', (deaths, seconds) => {
  expect(pauseAfterDeath(deaths)).toBe(seconds);
});
