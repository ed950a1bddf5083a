import { resolve } from 'node:path';
import type { SourcedText } from './config-sources.js';
import type { KeySpec } from './key-spec.js';
import { findKey, serverKeys } from './keys.js';
import { type ListenerRole, parseListenAddress } from './listen-address.js';
import { quoteProblem, readBoolean, readChoice, readNumber, readPatterns, readRegex, type ReadResult } from './read-value.js';
import type { ConfigProblem, ListenAddress, Origin } from './server-config.js';
import { modelKeys } from './model-keys.js';
import { nearest } from './suggest.js';

const byDefault: Origin = { source: 'default', where: undefined };

/** Reads typed values out of texts; what cannot be read is reported and replaced by the key's default. */
export class ConfigReader {
  readonly problems: ConfigProblem[];
  readonly origins = new Map<string, Origin>();
  readonly texts = new Map<string, string>();
  readonly #values: ReadonlyMap<string, SourcedText>;
  readonly #cwd: string;

  constructor(values: ReadonlyMap<string, SourcedText>, cwd: string, problems: readonly ConfigProblem[]) {
    this.#values = values;
    this.#cwd = cwd;
    this.problems = [...problems];
    for (const spec of serverKeys) {
      if (spec.status !== 'used' && !values.has(spec.name)) continue;
      this.origins.set(spec.name, this.origin(spec.name));
      this.texts.set(spec.name, this.raw(spec.name));
    }
  }

  origin(key: string): Origin {
    return this.#values.get(key)?.origin ?? byDefault;
  }

  /** True when some source gives the key a value that is not blank. */
  isSet(key: string): boolean {
    return (this.#values.get(key)?.text.trim() ?? '') !== '';
  }

  /** The text of a key without blanks around it, else its default. */
  raw(key: string): string {
    return this.isSet(key) ? (this.#values.get(key)?.text.trim() ?? '') : (spec(key).default ?? '');
  }

  /** Replaces what is shown for a key. */
  show(key: string, text: string): void {
    this.texts.set(key, text);
  }

  report(severity: ConfigProblem['severity'], key: string, message: string): void {
    this.problems.push({ severity, key, where: this.origin(key).where, message });
  }

  /** A reporter whose problems carry their own key and the place of this one. */
  reportAt(key: string): (severity: ConfigProblem['severity'], path: string, message: string) => void {
    return (severity, path, message) => this.problems.push({ severity, key: path, where: this.origin(key).where, message });
  }

  /** Reports unknown keys, keys without effect, quotes, and backslashes that a path loses. */
  checkKeys(): void {
    for (const [key, { text, raw }] of this.#values) {
      const known = findKey(key);
      if (!known) {
        const meant = nearest(
          key,
          serverKeys.map(({ name }) => name),
        );
        const ofModels = nearest(
          key,
          modelKeys.map(({ name }) => name),
        );
        const hint =
          meant !== undefined
            ? `; did you mean ${meant}?`
            : ofModels !== undefined
              ? `; ${ofModels} is set for each model, in its model-config.yaml or in the key models`
              : '';
        this.report('warning', key, `${key} is unknown and ignored${hint}`);
        continue;
      }
      if (known.status === 'pointless') this.report('info', key, `${key} is accepted and has no effect. ${known.doc}`);
      const quotes = quoteProblem(known, text.trim());
      if (quotes !== undefined) this.report('error', key, quotes);
      const lost =
        known.value.kind === 'path' && raw !== undefined ? /(?<!\\)(?:\\\\)*\\([^\\tnrfu\s:=#! ])/.exec(raw)?.[1] : undefined;
      if (lost !== undefined)
        this.report(
          'warning',
          key,
          `${key}: a properties file drops the backslash before "${lost}"; write \\\\ for one backslash, or /`,
        );
    }
  }

  text(key: string): string | undefined {
    const text = this.raw(key);
    return text === '' ? undefined : text;
  }

  /** An absolute path. */
  path(key: string): string | undefined {
    const text = this.text(key);
    return text === undefined ? undefined : resolve(this.#cwd, text);
  }

  number(key: string): number {
    return this.#read(key, readNumber);
  }

  optionalNumber(key: string): number | undefined {
    if (!this.isSet(key)) return undefined;
    const result = readNumber(spec(key), this.raw(key));
    if (result.ok) return result.value;
    this.#refuse(key, result.message);
    return undefined;
  }

  boolean(key: string): boolean {
    return this.#read(key, readBoolean);
  }

  choice<T extends string>(key: string, choices: readonly T[]): T {
    const value = this.#read(key, readChoice);
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw new TypeError(`${key} allows ${value}, but its reader does not`);
    return found;
  }

  /** Undefined when the key is not set or empty. */
  optionalChoice<T extends string>(key: string, choices: readonly T[]): T | undefined {
    const text = this.text(key);
    if (text === undefined) return undefined;
    const result = readChoice(spec(key), text);
    if (!result.ok) this.#refuse(key, result.message);
    return result.ok ? choices.find((choice) => choice === result.value) : undefined;
  }

  patterns(key: string): string[] {
    const result = readPatterns(spec(key), this.raw(key));
    if (result.ok) return result.value;
    this.#refuse(key, result.message);
    return [];
  }

  regex(key: string): string | undefined {
    const text = this.text(key);
    if (text === undefined) return undefined;
    const result = readRegex(spec(key), text);
    if (result.ok) return result.value;
    this.#refuse(key, result.message);
    return undefined;
  }

  address(key: string, role: ListenerRole): ListenAddress {
    const text = this.raw(key);
    try {
      return parseListenAddress(text, role);
    } catch (error) {
      this.#refuse(key, `${key}=${text}: ${(error as Error).message}`);
      return parseListenAddress(spec(key).default ?? '', role);
    }
  }

  #read<T>(key: string, read: (spec: KeySpec, text: string) => ReadResult<T>): T {
    const result = read(spec(key), this.raw(key));
    if (result.ok) return result.value;
    this.#refuse(key, result.message);
    const fallback = read(spec(key), spec(key).default ?? '');
    if (!fallback.ok) throw new TypeError(`${key} has no usable default: ${fallback.message}`);
    return fallback.value;
  }

  #refuse(key: string, message: string): void {
    // Quotes have been reported with the better sentence.
    if (quoteProblem(spec(key), this.raw(key)) === undefined) this.report('error', key, message);
    this.texts.set(key, spec(key).default ?? '');
    this.origins.set(key, byDefault);
  }
}

function spec(key: string): KeySpec {
  const found = findKey(key);
  if (!found) throw new TypeError(`no configuration key ${key}`);
  return found;
}
