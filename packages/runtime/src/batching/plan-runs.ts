/** One prepared item as the plan sees it. */
export interface PlanItem {
  /** Leading dimension of its tensors. */
  readonly rows: number;
  /** Items of one key can share a run: same inputs, datatypes and trailing dimensions. */
  readonly key: string;
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

/**
 * Groups prepared items into runs: by shape, up to `maxRows` rows a run, in order of arrival within a group.
 * An item with more rows than `maxRows` runs by itself; an item without rows needs no run and gets none under `fixed`.
 */
export function planRuns(items: readonly PlanItem[], axis: ModelAxis, maxRows: number | ((key: string) => number)): PlannedRun[] {
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
    else runs.push(...dynamicRuns(group, items, typeof maxRows === 'number' ? maxRows : maxRows(key)));
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
