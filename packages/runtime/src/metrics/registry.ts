import type { FamilySamples } from './exposition.js';
import { HistogramFamily, ScalarFamily } from './family.js';
import { families, type FamilyKey, type FamilySpec, type MetricType } from './names.js';

type Held = FamilySamples & { readonly type: string };
export type Built = { [Key in FamilyKey]: (typeof families)[Key]['type'] extends 'histogram' ? HistogramFamily : ScalarFamily };

/** Names that a family's samples take beside its own, in either exposition format. */
function namesOf(name: string, type: MetricType): string[] {
  switch (type) {
    case 'counter':
      return [name, name.endsWith('_total') ? name.slice(0, -'_total'.length) : `${name}_total`];
    case 'gauge':
      return [name];
    case 'histogram':
      return [name, `${name}_bucket`, `${name}_sum`, `${name}_count`];
    default: {
      const never: never = type;
      throw new TypeError(`unknown metric type ${String(never)}`);
    }
  }
}

/** All families of the process, each name once. */
export class MetricRegistry {
  /** The server's own families, by their key in the table. */
  readonly built: Built;
  readonly #families = new Map<string, Held>();
  readonly #owner = new Map<string, string>();

  /** @param buckets bounds that replace a histogram's own, by family name */
  constructor(buckets: ReadonlyMap<string, readonly number[]> = new Map()) {
    const built: Record<string, HistogramFamily | ScalarFamily> = {};
    for (const [key, spec] of Object.entries(families) as Array<[FamilyKey, FamilySpec]>) {
      const options = { ...spec, buckets: buckets.get(spec.name) ?? spec.buckets };
      built[key] = spec.type === 'histogram' ? new HistogramFamily(options) : new ScalarFamily(options);
      this.add(built[key]);
    }
    this.built = built as Built;
  }

  /** Which family a name belongs to, when taking it would clash. */
  clash(name: string, type: MetricType): string | undefined {
    for (const taken of namesOf(name, type)) {
      const owner = this.#owner.get(taken);
      if (owner !== undefined) return owner;
    }
    return undefined;
  }
  /** @throws when the name is taken */
  add(family: HistogramFamily | ScalarFamily): void {
    const owner = this.clash(family.name, family.type);
    if (owner !== undefined) throw new Error(`metric ${family.name} clashes with ${owner}`);
    for (const name of namesOf(family.name, family.type)) this.#owner.set(name, family.name);
    this.#families.set(family.name, family);
  }
  drop(family: HistogramFamily | ScalarFamily): void {
    if (this.#families.get(family.name) !== family) return;
    for (const name of namesOf(family.name, family.type)) this.#owner.delete(name);
    this.#families.delete(family.name);
  }
  get all(): Iterable<FamilySamples> {
    return this.#families.values();
  }
}
