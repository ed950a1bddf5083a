import { describe, expect, it } from 'vitest';
import { RunCost } from './run-cost.js';

/** Runs as a planner would: asks for the limit, runs that many rows. @returns the limits it got */
function simulate(cost: RunCost, perRow: (rows: number) => number, runs: number, maxRows = 16, shape = 'a'): number[] {
  return Array.from({ length: runs }, () => {
    const rows = cost.limit(shape, maxRows);
    cost.observe(shape, rows, perRow(rows) * rows);
    return rows;
  });
}

const share = (limits: readonly number[], rows: number) => limits.filter((it) => it === rows).length / limits.length;

describe('how many rows a run should have', () => {
  it('is the most where a larger run is cheaper for each row', () => {
    const limits = simulate(new RunCost(), (rows) => 1 + 8 / rows, 1000);
    expect(share(limits, 16)).toBeGreaterThan(0.95);
  });

  it('becomes few where small runs are cheaper, once they were tried', () => {
    const cost = new RunCost();
    const before = simulate(cost, (rows) => (rows <= 4 ? 5 : 6), 32 * 20);
    expect(before[0]).toBe(16);
    const after = simulate(cost, (rows) => (rows <= 4 ? 5 : 6), 500);
    expect(share(after, 16)).toBeLessThan(0.05);
  });

  it('stays the most where the difference is small', () => {
    const limits = simulate(new RunCost(), (rows) => (rows === 16 ? 5.05 : 5), 3000);
    expect(share(limits, 16)).toBeGreaterThan(0.95);
  });

  it('changes again when the costs do', () => {
    const cost = new RunCost();
    simulate(cost, (rows) => (rows === 1 ? 1 : 2), 2000);
    expect(cost.limit('a', 16)).toBeLessThan(16);
    const limits = simulate(cost, (rows) => 1 + 8 / rows, 6000);
    expect(share(limits.slice(-1000), 16)).toBeGreaterThan(0.95);
  });

  it('is learnt for each shape by itself, and for few of them', () => {
    const cost = new RunCost();
    simulate(cost, (rows) => (rows === 1 ? 1 : 2), 2000, 16, 'small');
    expect(cost.limit('other', 16)).toBe(16);
    for (let i = 0; i < 1000; i++) cost.observe(`shape ${i}`, 1, 1);
    expect(cost.limit('small', 16)).toBe(16);
  });

  it('has nothing to choose with batchSize 1, and ignores runs without rows', () => {
    const cost = new RunCost();
    expect(cost.limit('a', 1)).toBe(1);
    cost.observe('a', 0, 5);
    expect(cost.limit('a', 8)).toBe(8);
  });
});
