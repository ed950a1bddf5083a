import { boundText, labelText, type FamilySamples, type Sample } from './exposition.js';
import type { MetricType } from './names.js';

/** A series that a hot path keeps in hand: no lookup, no allocation per value. */
export class Scalar {
  value = 0;
  constructor(readonly labels: string) {}
  add(amount: number): void {
    this.value += amount;
  }
  set(value: number): void {
    this.value = value;
  }
  *samples(): Iterable<Sample> {
    yield { suffix: '', labels: this.labels, value: this.value };
  }
}

export class Distribution {
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;
  constructor(
    readonly labels: string,
    readonly bounds: readonly number[],
  ) {
    this.#counts = new Float64Array(bounds.length);
  }
  observe(value: number): void {
    const bounds = this.bounds;
    for (let at = 0; at < bounds.length; at++) {
      if (value <= bounds[at]!) {
        this.#counts[at]! += 1;
        break;
      }
    }
    this.#sum += value;
    this.#count += 1;
  }
  *samples(): Iterable<Sample> {
    const before = this.labels === '' ? '' : `${this.labels},`;
    let below = 0;
    for (let at = 0; at < this.bounds.length; at++) {
      below += this.#counts[at]!;
      yield { suffix: '_bucket', labels: `${before}le="${boundText(this.bounds[at]!)}"`, value: below };
    }
    yield { suffix: '_bucket', labels: `${before}le="+Inf"`, value: this.#count };
    yield { suffix: '_sum', labels: this.labels, value: this.#sum };
    yield { suffix: '_count', labels: this.labels, value: this.#count };
  }
}

export interface FamilyOptions {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
}

/** A metric family: one series for each combination of label values, made on first use. */
export abstract class Family<Series extends { samples(): Iterable<Sample> }> implements FamilySamples {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly #series = new Map<string, Series>();

  constructor(options: FamilyOptions) {
    this.name = options.name;
    this.type = options.type;
    this.help = options.help;
    this.labelNames = options.labels;
  }

  protected abstract create(labels: string): Series;

  /** @param values in the order of the family's labels */
  series(...values: readonly string[]): Series {
    const labels = labelText(this.labelNames, values);
    let found = this.#series.get(labels);
    if (found === undefined) {
      found = this.create(labels);
      this.#series.set(labels, found);
    }
    return found;
  }
  remove(...values: readonly string[]): void {
    this.#series.delete(labelText(this.labelNames, values));
  }
  clear(): void {
    this.#series.clear();
  }
  get size(): number {
    return this.#series.size;
  }
  get samples(): Iterable<Sample> {
    return this.#samples();
  }
  *#samples(): Iterable<Sample> {
    for (const series of this.#series.values()) yield* series.samples();
  }
}

export class ScalarFamily extends Family<Scalar> {
  protected create(labels: string): Scalar {
    return new Scalar(labels);
  }
}

export class HistogramFamily extends Family<Distribution> {
  readonly #bounds: readonly number[];
  constructor(options: FamilyOptions) {
    super(options);
    this.#bounds = [...(options.buckets ?? [])].sort((a, b) => a - b);
  }
  protected create(labels: string): Distribution {
    return new Distribution(labels, this.#bounds);
  }
}
