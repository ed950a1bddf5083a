/** What came before weighs so much less with each run. */
const FADE = 0.98;
/** Runs before the estimate counts. */
const ENOUGH = 8;

/** Cost of a run: `fixed` for itself, `perUnit` for each element of its padded inputs, in any unit that both share. */
export interface Cost {
  readonly fixed: number;
  readonly perUnit: number;
}

/**
 * Learns from real runs what a run costs by itself and what each element of its inputs adds: a straight line through the latest runs.
 */
export class LengthCost {
  #runs = 0;
  #weight = 0;
  #x = 0;
  #y = 0;
  #xx = 0;
  #xy = 0;

  /**
   * @param units elements of its padded inputs, padding included
   * @param ms what the run took
   */
  observe(units: number, ms: number): void {
    // The first run pays for memory that the later ones find.
    if (this.#runs++ === 0) return;
    this.#weight = this.#weight * FADE + 1;
    this.#x = this.#x * FADE + units;
    this.#y = this.#y * FADE + ms;
    this.#xx = this.#xx * FADE + units * units;
    this.#xy = this.#xy * FADE + units * ms;
  }

  /** @returns undefined until enough runs of different size were seen */
  get(): Cost | undefined {
    if (this.#runs <= ENOUGH) return undefined;
    const spread = this.#weight * this.#xx - this.#x * this.#x;
    // Runs of one size tell nothing about the slope.
    if (spread < this.#weight * this.#xx * 0.01) return undefined;
    const perUnit = Math.max(0, (this.#weight * this.#xy - this.#x * this.#y) / spread);
    return { fixed: Math.max(0, (this.#y - perUnit * this.#x) / this.#weight), perUnit };
  }
}
