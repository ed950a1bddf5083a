import { type Scores, toRows } from './scores.js';

export interface Ranked {
  /** Position on the last axis. */
  readonly index: number;
  /** `labels[index]`, or the index as text where there is no such label. */
  readonly label: string;
  readonly score: number;
}

/** Labels by position, or by position as text (`index_to_name.json`), where the last of a list is the name. */
export type Labels = readonly string[] | Readonly<Record<string, string | readonly string[]>>;

/**
 * The `k` best of a single row, the best first; of equals the lower index first.
 * @param scores shape `[C]` or `[1, ..., C]`
 * @throws for more than one row: see `topKRows`
 */
export function topK(scores: Scores | undefined, k: number, labels?: Labels): Ranked[] {
  const { values, rows, width } = toRows(scores);
  if (rows > 1) throw new RangeError(`topK takes one row of scores, got ${rows}; use topKRows`);
  return best(values, 0, rows * width, k, labels);
}

/** The `k` best of each row of the last axis. */
export function topKRows(scores: Scores | undefined, k: number, labels?: Labels): Ranked[][] {
  const { values, rows, width } = toRows(scores);
  return Array.from({ length: rows }, (_, row) => best(values, row * width, (row + 1) * width, k, labels));
}

/** Position of the greatest value of each row of the last axis; of equals the first. NaN never wins. */
export function argmax(scores: Scores | undefined): number[] {
  const { values, rows, width } = toRows(scores);
  return Array.from({ length: rows }, (_, row) => {
    let found = 0;
    let peak = -Infinity;
    for (let at = 0; at < width; at++) {
      const value = values[row * width + at]!;
      if (value > peak) {
        peak = value;
        found = at;
      }
    }
    return found;
  });
}

function best(values: ArrayLike<number>, start: number, end: number, k: number, labels: Labels | undefined): Ranked[] {
  const wanted = Math.max(0, Math.floor(k));
  if (wanted === 0) return [];
  // Sorting thousands of classes for the five best would cost more than all the rest of postprocessing.
  const order: number[] = [];
  for (let index = 0; index < end - start; index++) {
    const value = values[start + index]!;
    if (Number.isNaN(value) || (order.length === wanted && !(value > values[start + (order.at(-1) ?? 0)]!))) continue;
    if (order.length === wanted) order.pop();
    let at = order.length;
    while (at > 0 && value > values[start + order[at - 1]!]!) at--;
    order.splice(at, 0, index);
  }
  return order.map((index) => ({ index, label: labelOf(labels, index), score: values[start + index]! }));
}

function labelOf(labels: Labels | undefined, index: number): string {
  const label = (labels as Readonly<Record<string, string | readonly string[]>> | undefined)?.[index];
  return (typeof label === 'object' ? label.at(-1) : label) ?? String(index);
}
