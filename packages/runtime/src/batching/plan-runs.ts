import type { Cost } from './length-cost.js';
import { planRagged, type RaggedItem } from './plan-ragged.js';

/** One prepared item as the plan sees it. */
export interface PlanItem {
  /** Leading dimension of its tensors. */
  readonly rows: number;
  /** Items of one key can share a run: same inputs, datatypes and trailing dimensions. */
  readonly key: string;
  /** Elements of a row of the inputs that may be padded, where those of one key may differ in length; undefined where they may not. */
  readonly size?: number | undefined;
}

export interface ModelAxis {
  /**
   * `dynamic`: rows of several items share a run. `fixed`: every run has exactly `rows`.
   * `none`: the model has no batch axis, every item runs alone as it is.
   */
  readonly kind: 'dynamic' | 'fixed' | 'none';
  readonly rows: number;
}

/** A slice of an item's rows. */
export interface Piece {
  /** Index into the planned items. */
  readonly item: number;
  readonly from: number;
  readonly to: number;
}

export interface PlannedRun {
  readonly pieces: readonly Piece[];
  /** Rows that are added and thrown away again, so that a fixed axis is filled. */
  readonly padding: number;
}

export interface RunLimits {
  /** Rows that a run of these items should have at most. */
  rows(key: string): number;
  /** What is known of the cost of runs of different lengths, see `planRagged`. */
  readonly ragged: Cost | 'insist' | undefined;
}

/**
 * Groups prepared items into runs: by shape, in order of arrival within a group, or by length where lengths may differ.
 * An item with more rows than a run may have runs by itself; an item without rows needs no run and gets none under `fixed`.
 */
export function planRuns(items: readonly PlanItem[], axis: ModelAxis, limits: RunLimits): PlannedRun[] {
  const runs: PlannedRun[] = [];
  if (axis.kind === 'none') {
    return items.map((item, index) => ({ pieces: [{ item: index, from: 0, to: item.rows }], padding: 0 }));
  }
  const groups = new Map<string, number[]>();
  items.forEach((item, index) => {
    const group = groups.get(item.key);
    if (group === undefined) groups.set(item.key, [index]);
    else group.push(index);
  });
  for (const [key, group] of groups) {
    if (axis.kind === 'fixed') runs.push(...fixedRuns(group, items, axis.rows));
    else if (items[group[0]!]!.size !== undefined) runs.push(...raggedRuns(group, items, limits.rows(key), limits.ragged));
    else runs.push(...dynamicRuns(group, items, limits.rows(key)));
  }
  return runs;
}

function dynamicRuns(group: readonly number[], items: readonly PlanItem[], maxRows: number): PlannedRun[] {
  const runs: PlannedRun[] = [];
  let pieces: Piece[] = [];
  let rows = 0;
  for (const index of group) {
    const size = items[index]!.rows;
    if (pieces.length > 0 && rows + size > maxRows) {
      runs.push({ pieces, padding: 0 });
      pieces = [];
      rows = 0;
    }
    pieces.push({ item: index, from: 0, to: size });
    rows += size;
  }
  if (pieces.length > 0) runs.push({ pieces, padding: 0 });
  return runs;
}

function raggedRuns(
  group: readonly number[],
  items: readonly PlanItem[],
  maxRows: number,
  cost: RunLimits['ragged'],
): PlannedRun[] {
  const members = group.map((index): RaggedItem => ({ rows: items[index]!.rows, size: items[index]!.size ?? 0 }));
  return planRagged(members, maxRows, cost).map((run) => ({
    pieces: run.map((at) => ({ item: group[at]!, from: 0, to: members[at]!.rows })),
    padding: 0,
  }));
}

function fixedRuns(group: readonly number[], items: readonly PlanItem[], size: number): PlannedRun[] {
  const runs: PlannedRun[] = [];
  let pieces: Piece[] = [];
  let rows = 0;
  for (const index of group) {
    let from = 0;
    const total = items[index]!.rows;
    while (from < total) {
      const take = Math.min(size - rows, total - from);
      pieces.push({ item: index, from, to: from + take });
      from += take;
      rows += take;
      if (rows === size) {
        runs.push({ pieces, padding: 0 });
        pieces = [];
        rows = 0;
      }
    }
  }
  if (pieces.length > 0) runs.push({ pieces, padding: size - rows });
  return runs;
}
