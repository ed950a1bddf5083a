/** Reads the free keys of `model-config.yaml`; what is wrong is named with its key. */
export class HandlerConfig {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #where: string;

  constructor(values: unknown, where = 'model-config.yaml') {
    if (values !== undefined && (typeof values !== 'object' || values === null || Array.isArray(values))) {
      throw new TypeError(`${where} should be a map of keys and values`);
    }
    this.#values = (values ?? {}) as Readonly<Record<string, unknown>>;
    this.#where = where;
  }

  section(key: string): HandlerConfig {
    return new HandlerConfig(this.#values[key], `"${key}" in ${this.#where}`);
  }

  number(key: string, fallback: number): number {
    const value = this.#values[key];
    if (value === undefined) return fallback;
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    throw this.#wrong(key, 'a number above 0', value);
  }

  oneOf<T extends string>(key: string, choices: readonly T[], fallback: T): T {
    const value = this.#values[key];
    if (value === undefined) return fallback;
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw this.#wrong(key, choices.join(' or '), value);
    return found;
  }

  boolean(key: string, fallback: boolean): boolean {
    const value = this.#values[key];
    if (value === undefined) return fallback;
    if (typeof value !== 'boolean') throw this.#wrong(key, 'true or false', value);
    return value;
  }

  text(key: string, fallback: string): string {
    const value = this.#values[key];
    if (value === undefined) return fallback;
    if (typeof value !== 'string') throw this.#wrong(key, 'text', value);
    return value;
  }

  triple(key: string, fallback: readonly [number, number, number]): readonly [number, number, number] {
    const value = this.#values[key];
    if (value === undefined) return fallback;
    if (Array.isArray(value) && value.length === 3 && value.every((item) => typeof item === 'number' && Number.isFinite(item))) {
      return value as unknown as [number, number, number];
    }
    throw this.#wrong(key, 'three numbers', value);
  }

  /** @throws naming a key that is none of these, which a typing error would be */
  only(keys: readonly string[]): this {
    const unknown = Object.keys(this.#values).find((key) => !keys.includes(key));
    if (unknown === undefined) return this;
    throw new TypeError(`${this.#where} has the unknown key "${unknown}"; it may have ${keys.join(', ')}`);
  }

  #wrong(key: string, wanted: string, got: unknown): TypeError {
    return new TypeError(`"${key}" in ${this.#where} should be ${wanted}, got ${JSON.stringify(got)}`);
  }
}
