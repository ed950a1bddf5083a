import type { Cost } from './length-cost.js';

export interface RaggedItem {
  /** Leading dimension of its tensors. */
  readonly rows: number;
  /** Elements of a row of its padded inputs. */
  readonly size: number;
}

/** Before anything is known a run costs as much as half a row of usual size. */
const FIRST_GUESS = 0.5;

/**
 * Divides items of different lengths into runs, each padded to its longest item, so that the whole costs least.
 * @param cost what is known of a run's cost; `insist`: as few runs as possible, whatever the padding costs
 * @returns the indices of each run, the shortest items first
 */
export function planRagged(items: readonly RaggedItem[], maxRows: number, cost: Cost | 'insist' | undefined): number[][] {
  const order = items.map((_, index) => index).sort((a, b) => items[a]!.size - items[b]!.size || a - b);
  const mean = items.reduce((sum, { size }) => sum + size, 0) / Math.max(1, items.length);
  const { fixed, perUnit } =
    cost === 'insist' ? { fixed: Number.MAX_SAFE_INTEGER, perUnit: 1 } : (cost ?? { fixed: FIRST_GUESS * mean, perUnit: 1 });
  // Least cost of the first n items, and where the last of their runs begins.
  const least = [0];
  const begins = [0];
  for (let end = 1; end <= order.length; end++) {
    let best = Infinity;
    let rows = 0;
    for (let begin = end - 1; begin >= 0; begin--) {
      rows += items[order[begin]!]!.rows;
      if (rows > maxRows && begin < end - 1) break;
      const total = least[begin]! + fixed + perUnit * rows * items[order[end - 1]!]!.size;
      if (total < best) {
        best = total;
        begins[end] = begin;
      }
    }
    least[end] = best;
  }
  const runs: number[][] = [];
  for (let end = order.length; end > 0; end = begins[end]!) runs.push(order.slice(begins[end], end));
  return runs.reverse();
}
