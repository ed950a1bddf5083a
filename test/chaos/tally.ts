const KEPT_EXAMPLES = 5;

/** Counts answers by what they were worth. */
export class Tally {
  sent = 0;
  answers = 0;
  failures = 0;
  mistakes = 0;
  seconds = 0;
  readonly examples: string[] = [];
  readonly #latencies: number[] = [];

  /** @param ms from the time at which it was due to be sent */
  right(ms: number): void {
    this.answers++;
    this.#latencies.push(ms);
  }

  failed(example: string): void {
    this.failures++;
    this.#example(example);
  }

  wrong(example: string): void {
    this.mistakes++;
    this.#example(example);
  }

  get bad(): number {
    return this.failures + this.mistakes;
  }

  get rate(): number {
    return this.answers / Math.max(this.seconds, 0.001);
  }

  /** Milliseconds. */
  quantile(share: number): number {
    const sorted = this.#latencies.slice().sort((one, other) => one - other);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  }

  /** Failed, wrong, and such as never came. */
  violations(): string[] {
    const missing = this.sent - this.answers - this.bad;
    return [
      ...(this.failures > 0 ? [`${this.failures} of ${this.sent} answers failed`] : []),
      ...(this.mistakes > 0 ? [`${this.mistakes} of ${this.sent} answers were wrong`] : []),
      ...(missing !== 0 ? [`${missing} answers are missing`] : []),
      ...(this.answers === 0 ? ['no answer at all'] : []),
      ...this.examples,
    ];
  }

  #example(text: string): void {
    if (this.examples.length < KEPT_EXAMPLES) this.examples.push(text);
  }
}
