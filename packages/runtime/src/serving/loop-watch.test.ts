import { expect, it } from 'vitest';
import { blockedFor, LoopWatch } from './loop-watch.js';

it.each([
  ['nothing', [], false],
  ['one pause, however long', [{ at: 99_000, ms: 3_600_000 }], false],
  [
    'two long pauses',
    [
      { at: 88_000, ms: 15_000 },
      { at: 99_000, ms: 15_000 },
    ],
    false,
  ],
  [
    'most of the last half minute',
    [
      { at: 80_000, ms: 8_000 },
      { at: 89_000, ms: 8_000 },
      { at: 98_000, ms: 8_000 },
    ],
    true,
  ],
  [
    'pauses of long ago',
    [
      { at: 10_000, ms: 8_000 },
      { at: 20_000, ms: 8_000 },
      { at: 98_000, ms: 8_000 },
    ],
    false,
  ],
])('%s', (_, lateness, blocked) => {
  expect(blockedFor(lateness, 100_000) !== undefined).toBe(blocked);
});

it('a loop whose timers come late again and again is blocked, and recovers', () => {
  let now = 0;
  const watch = new LoopWatch(() => now);
  watch.close();
  for (let second = 0; second < 3; second++) {
    now += 9_000;
    watch.tick();
  }
  expect(watch.blocked()).toContain('of the last 30 s');
  for (let step = 0; step < 60; step++) {
    now += 500;
    watch.tick();
  }
  expect(watch.blocked()).toBeUndefined();
});
