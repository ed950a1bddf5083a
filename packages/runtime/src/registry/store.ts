import { ServeError } from '../domain/errors.js';

interface Model<Entry> {
  defaultVersion: string;
  /** In the order of registration. */
  readonly versions: Map<string, Entry>;
}

export interface VersionedEntry<Entry> {
  readonly version: string;
  readonly entry: Entry;
  readonly isDefault: boolean;
}

/**
 * Models by name and version. The first version that is registered is the default; others become it only when told.
 * A version is any text; the integer N also finds `N.0`.
 */
export class VersionTable<Entry> {
  readonly #models = new Map<string, Model<Entry>>();

  /** @throws {ServeError} CONFLICT when that version is registered already */
  add(name: string, version: string, entry: Entry): void {
    const model = this.#models.get(name);
    if (model === undefined) {
      this.#models.set(name, { defaultVersion: version, versions: new Map([[version, entry]]) });
      return;
    }
    if (model.versions.has(version)) {
      throw new ServeError('CONFLICT', `Version ${version} of model "${name}" is registered already; unregister it first.`);
    }
    model.versions.set(version, entry);
  }

  /**
   * @param version undefined for the default version
   * @throws {ServeError} MODEL_NOT_FOUND, MODEL_VERSION_NOT_FOUND
   */
  get(name: string, version?: string): Entry {
    const model = this.#model(name);
    return model.versions.get(this.#resolve(name, model, version))!;
  }

  /** As `get`, with undefined in the place of an error. */
  find(name: string, version?: string): Entry | undefined {
    const model = this.#models.get(name);
    if (model === undefined) return undefined;
    return model.versions.get(version === undefined ? model.defaultVersion : (known(model, version) ?? ''));
  }

  /** The registered spelling of a version. @throws {ServeError} MODEL_NOT_FOUND, MODEL_VERSION_NOT_FOUND */
  versionOf(name: string, version?: string): string {
    return this.#resolve(name, this.#model(name), version);
  }

  /** @throws {ServeError} MODEL_NOT_FOUND, MODEL_VERSION_NOT_FOUND */
  setDefault(name: string, version: string): void {
    const model = this.#model(name);
    model.defaultVersion = this.#resolve(name, model, version);
  }

  /** @throws {ServeError} MODEL_NOT_FOUND */
  defaultVersion(name: string): string {
    return this.#model(name).defaultVersion;
  }

  /**
   * Takes a version out. The default one must go last.
   * @param version undefined for the default version
   * @throws {ServeError} MODEL_NOT_FOUND, MODEL_VERSION_NOT_FOUND, INVALID_MODEL_VERSION
   */
  remove(name: string, version?: string): Entry {
    this.checkRemovable(name, version);
    const model = this.#model(name);
    const chosen = this.#resolve(name, model, version);
    const entry = model.versions.get(chosen)!;
    model.versions.delete(chosen);
    if (model.versions.size === 0) this.#models.delete(name);
    return entry;
  }

  /** Throws what `remove` would throw. */
  checkRemovable(name: string, version?: string): void {
    const model = this.#model(name);
    const chosen = this.#resolve(name, model, version);
    if (chosen !== model.defaultVersion || model.versions.size === 1) return;
    const others = [...model.versions.keys()].filter((other) => other !== chosen).join(', ');
    throw new ServeError(
      'INVALID_MODEL_VERSION',
      `Version ${chosen} is the default of model "${name}", which has others too (${others}). Make another one the default first.`,
    );
  }

  /** In the order of registration. @throws {ServeError} MODEL_NOT_FOUND */
  versions(name: string): Array<VersionedEntry<Entry>> {
    const { versions, defaultVersion } = this.#model(name);
    return [...versions].map(([version, entry]) => ({ version, entry, isDefault: version === defaultVersion }));
  }

  /** Sorted by code unit. */
  names(): string[] {
    return [...this.#models.keys()].sort();
  }

  /** Every entry of every model. */
  entries(): Entry[] {
    return [...this.#models.values()].flatMap(({ versions }) => [...versions.values()]);
  }

  #model(name: string): Model<Entry> {
    const model = this.#models.get(name);
    if (model === undefined) throw new ServeError('MODEL_NOT_FOUND', `There is no model "${name}".`);
    return model;
  }

  #resolve(name: string, model: Model<Entry>, version: string | undefined): string {
    if (version === undefined) return model.defaultVersion;
    const found = known(model, version);
    if (found !== undefined) return found;
    const there = [...model.versions.keys()].join(', ');
    throw new ServeError('MODEL_VERSION_NOT_FOUND', `Model "${name}" has no version ${version}; there are: ${there}.`);
  }
}

function known(model: Model<unknown>, version: string): string | undefined {
  if (model.versions.has(version)) return version;
  return /^\d+$/.test(version) && model.versions.has(`${version}.0`) ? `${version}.0` : undefined;
}
