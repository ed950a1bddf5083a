import { describe, expect, it } from 'vitest';
import { type ModelAxis, planRuns, type PlanItem } from './plan-runs.js';

const item = (rows: number, key = 'a'): PlanItem => ({ rows, key });
const dynamic: ModelAxis = { kind: 'dynamic', rows: 0 };
/** Runs as `item:from-to` lists. */
const shown = (items: readonly PlanItem[], axis: ModelAxis, maxRows: number) =>
  planRuns(items, axis, { rows: () => maxRows, ragged: undefined }).map(
    ({ pieces, padding }) => pieces.map((it) => `${it.item}:${it.from}-${it.to}`).join(' ') + (padding > 0 ? ` +${padding}` : ''),
  );

describe('a dynamic axis', () => {
  it.each([
    ['nothing', [], []],
    ['all fit', [item(1), item(2), item(1)], ['0:0-1 1:0-2 2:0-1']],
    ['too many for one run', [item(3), item(2), item(2)], ['0:0-3', '1:0-2 2:0-2']],
    ['more rows than a run takes', [item(9), item(1)], ['0:0-9', '1:0-1']],
    ['two shapes, in order of arrival', [item(1, 'a'), item(1, 'b'), item(1, 'a')], ['0:0-1 2:0-1', '1:0-1']],
    ['no rows', [item(0), item(1)], ['0:0-0 1:0-1']],
  ])('%s', (_, items, runs) => {
    expect(shown(items, dynamic, 4)).toEqual(runs);
  });
});

it('a model without a batch axis runs each item alone', () => {
  expect(shown([item(1), item(7)], { kind: 'none', rows: 0 }, 4)).toEqual(['0:0-1', '1:0-7']);
});

describe('a fixed axis of 4', () => {
  it.each([
    [1, ['0:0-1 +3']],
    [4, ['0:0-4']],
    [5, ['0:0-4', '0:4-5 +3']],
    [9, ['0:0-4', '0:4-8', '0:8-9 +3']],
  ])('%i rows', (rows, runs) => {
    expect(shown([item(rows)], { kind: 'fixed', rows: 4 }, 1)).toEqual(runs);
  });

  it('fills the axis with rows of several items', () => {
    expect(shown([item(3), item(3), item(1)], { kind: 'fixed', rows: 4 }, 4)).toEqual(['0:0-3 1:0-1', '1:1-3 2:0-1 +1']);
  });
});

it('covers every row of every item exactly once, in order, never mixing shapes', () => {
  for (let seed = 1; seed <= 200; seed++) {
    let state = seed;
    const next = (below: number) => (state = (state * 48271) % 2147483647) % below;
    const items = Array.from({ length: 1 + next(8) }, () => item(1 + next(9), 'abc'[next(3)]));
    const axis: ModelAxis = [dynamic, { kind: 'fixed' as const, rows: 1 + next(5) }, { kind: 'none' as const, rows: 0 }][
      next(3)
    ]!;
    const maxRows = 1 + next(8);
    const reached = items.map(() => 0);
    for (const { pieces, padding } of planRuns(items, axis, { rows: () => maxRows, ragged: undefined })) {
      expect(new Set(pieces.map((piece) => items[piece.item]!.key)).size).toBe(axis.kind === 'none' ? pieces.length : 1);
      let rows = padding;
      for (const piece of pieces) {
        expect(piece.from).toBe(reached[piece.item]);
        reached[piece.item] = piece.to;
        rows += piece.to - piece.from;
      }
      if (axis.kind === 'fixed') expect(rows).toBe(axis.rows);
      if (axis.kind === 'dynamic' && pieces.length > 1) expect(rows).toBeLessThanOrEqual(maxRows);
    }
    expect(reached).toEqual(items.map(({ rows }) => rows));
  }
});
