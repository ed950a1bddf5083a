import { describe, expect, it } from 'vitest';
import { LengthCost } from './length-cost.js';
import { planRagged } from './plan-ragged.js';

const items = (...sizes: number[]) => sizes.map((size) => ({ rows: 1, size }));
const sizesOf = (given: ReturnType<typeof items>, runs: number[][]) => runs.map((run) => run.map((at) => given[at]!.size));

describe('runs of items of different lengths', () => {
  it('join what is alike and keep apart what would only be padding', () => {
    const given = items(100, 9, 10, 98, 11);
    expect(sizesOf(given, planRagged(given, 16, { fixed: 5, perUnit: 1 }))).toEqual([
      [9, 10, 11],
      [98, 100],
    ]);
  });

  it('are one each where a run costs nothing by itself, and one for all where it costs the most', () => {
    const given = items(30, 10, 20);
    expect(planRagged(given, 16, { fixed: 0, perUnit: 1 })).toHaveLength(3);
    expect(sizesOf(given, planRagged(given, 16, { fixed: 1000, perUnit: 1 }))).toEqual([[10, 20, 30]]);
    expect(sizesOf(given, planRagged(given, 16, 'insist'))).toEqual([[10, 20, 30]]);
  });

  it('join equal items even when a run costs nothing that is known', () => {
    const given = items(10, 10, 10, 10);
    expect(planRagged(given, 16, undefined)).toHaveLength(1);
  });

  it('never have more rows than allowed, but for an item that has more alone', () => {
    const given = [
      { rows: 2, size: 4 },
      { rows: 3, size: 4 },
      { rows: 9, size: 4 },
      { rows: 1, size: 4 },
    ];
    const runs = planRagged(given, 4, 'insist');
    expect(runs.flat().sort((a, b) => a - b)).toEqual([0, 1, 2, 3]);
    for (const run of runs) {
      const rows = run.reduce((sum, at) => sum + given[at]!.rows, 0);
      expect(rows <= 4 || run.length === 1).toBe(true);
    }
  });

  it('cost no more than any other division', () => {
    const cost = { fixed: 7, perUnit: 1 };
    const price = (given: ReturnType<typeof items>, runs: number[][]) =>
      runs.reduce((sum, run) => sum + cost.fixed + run.length * Math.max(...run.map((at) => given[at]!.size)), 0);
    for (let seed = 1; seed <= 50; seed++) {
      const given = items(...Array.from({ length: 6 }, (_, i) => ((seed * 7919 * (i + 3)) % 37) + 1));
      const best = price(given, planRagged(given, 4, cost));
      for (const division of divisions([0, 1, 2, 3, 4, 5], 4)) expect(best).toBeLessThanOrEqual(price(given, division));
    }
  });
});

/** Every division of a set into parts of at most `most` members. */
function* divisions(left: readonly number[], most: number): Generator<number[][]> {
  if (left.length === 0) return yield [];
  const [first, ...rest] = left as [number, ...number[]];
  for (let mask = 0; mask < 1 << rest.length; mask++) {
    const part = [first, ...rest.filter((_, at) => (mask >> at) & 1)];
    if (part.length > most) continue;
    for (const others of divisions(
      rest.filter((_, at) => !((mask >> at) & 1)),
      most,
    ))
      yield [part, ...others];
  }
}

describe('what a run costs', () => {
  it('is learnt from runs of different sizes', () => {
    const cost = new LengthCost();
    expect(cost.get()).toBeUndefined();
    for (let run = 0; run < 40; run++) {
      const units = 10 + ((run * 13) % 50);
      cost.observe(units, 1.5 + 0.15 * units);
    }
    expect(cost.get()?.fixed).toBeCloseTo(1.5, 6);
    expect(cost.get()?.perUnit).toBeCloseTo(0.15, 6);
  });

  it('is not guessed from runs of one size', () => {
    const cost = new LengthCost();
    for (let run = 0; run < 40; run++) cost.observe(20, 4);
    expect(cost.get()).toBeUndefined();
  });

  it('follows when it changes, and is never negative', () => {
    const cost = new LengthCost();
    for (let run = 0; run < 40; run++) cost.observe(run, 100 - run);
    expect(cost.get()).toEqual({ fixed: expect.any(Number), perUnit: 0 });
    for (let run = 0; run < 1000; run++) cost.observe(10 + (run % 40), 2 + 3 * (10 + (run % 40)));
    expect(cost.get()?.perUnit).toBeCloseTo(3, 3);
  });
});
