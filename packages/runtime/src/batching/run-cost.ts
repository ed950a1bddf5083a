/** Runs of a size before its cost counts as known. */
const ENOUGH = 3;
/** A smaller run must be cheaper by so much, or the largest is kept: it also saves what a run costs around the engine. */
const MARGIN = 0.97;
/** One run in so many tries a size whose cost is unknown or old. */
const EXPLORE_EVERY = 32;
/** Shapes that are remembered; the oldest are forgotten first. */
const MOST_SHAPES = 128;

interface Size {
  runs: number;
  /** Moving average, milliseconds for each row. */
  perRow: number;
}

interface Shape {
  /** By the power of two that the number of rows lies above. */
  readonly sizes: Size[];
  asked: number;
}

/**
 * Learns from real runs how many rows pay for themselves. On a GPU, and where a run's own overhead counts, the largest batch is the
 * cheapest; on a CPU a model that fills its caches alone is quicker in small runs. Each shape is judged by itself.
 */
export class RunCost {
  readonly #shapes = new Map<string, Shape>();

  /** @param ms what the run took */
  observe(shape: string, rows: number, ms: number): void {
    if (rows < 1) return;
    const { sizes } = this.#shape(shape);
    const size = (sizes[Math.floor(Math.log2(rows))] ??= { runs: 0, perRow: 0 });
    const perRow = ms / rows;
    // The first run of a size pays for memory that the later ones find.
    size.perRow = size.runs <= 1 ? perRow : size.perRow + (perRow - size.perRow) / 8;
    size.runs++;
  }

  /** Rows that a run of this shape should have at most. */
  limit(shape: string, maxRows: number): number {
    if (maxRows <= 1) return maxRows;
    const it = this.#shape(shape);
    const top = Math.floor(Math.log2(maxRows));
    const cost = (power: number) => (known(it.sizes[power]) ? it.sizes[power]!.perRow : Infinity);
    it.asked++;
    if (it.asked % EXPLORE_EVERY === 0) {
      const turn = (it.asked / EXPLORE_EVERY) % (top + 1);
      return turn === top ? maxRows : 2 ** turn;
    }
    if (!known(it.sizes[top])) return maxRows;
    let best = top;
    for (let power = 0; power < top; power++) if (cost(power) < cost(best)) best = power;
    return cost(best) < cost(top) * MARGIN ? 2 ** best : maxRows;
  }

  #shape(key: string): Shape {
    let shape = this.#shapes.get(key);
    if (shape === undefined) {
      if (this.#shapes.size >= MOST_SHAPES) this.#shapes.delete(this.#shapes.keys().next().value!);
      shape = { sizes: [], asked: 0 };
      this.#shapes.set(key, shape);
    }
    return shape;
  }
}

function known(size: Size | undefined): boolean {
  return size !== undefined && size.runs >= ENOUGH;
}
