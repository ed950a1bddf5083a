/** What a value may be. */
export type ValueKind =
  | { readonly kind: 'integer' | 'number'; readonly min: number; readonly max: number }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  | { readonly kind: 'text' }
  | { readonly kind: 'path' }
  | { readonly kind: 'address' }
  | { readonly kind: 'regex' }
  | { readonly kind: 'patterns' }
  | { readonly kind: 'archives' }
  | { readonly kind: 'json' };

/** `used`: the server acts on it. `pointless`: TorchServe's, accepted, nothing in this server that it could tune. */
export type KeyStatus = 'used' | 'pointless';

/** One key of `config.properties`. */
export interface KeySpec {
  readonly name: string;
  readonly value: ValueKind;
  /** As it would be written in the file; undefined: none. */
  readonly default: string | undefined;
  /** Replaces `default` in the documentation. */
  readonly defaultDoc?: string;
  readonly unit?: string;
  readonly from: 'TorchServe' | 'onnxserve';
  readonly status: KeyStatus;
  /** False: no `TS_` variable replaces it. */
  readonly environment: boolean;
  /** Never shown. */
  readonly secret?: true;
  readonly doc: string;
}

/** Optional parts of a KeySpec. */
export type KeyExtras = Partial<Pick<KeySpec, 'default' | 'defaultDoc' | 'unit' | 'from' | 'status' | 'environment' | 'secret'>>;

/** A key of TorchServe's that is used and has a `TS_` variable, unless the extras say otherwise. */
export function key(name: string, value: ValueKind, doc: string, extras: KeyExtras = {}): KeySpec {
  return { name, value, doc, default: undefined, from: 'TorchServe', status: 'used', environment: true, ...extras };
}

export const boolean: ValueKind = { kind: 'boolean' };
export const text: ValueKind = { kind: 'text' };
export const path: ValueKind = { kind: 'path' };
export const address: ValueKind = { kind: 'address' };
export const json: ValueKind = { kind: 'json' };
export const integer = (min: number, max: number): ValueKind => ({ kind: 'integer', min, max });
export const number = (min: number, max: number): ValueKind => ({ kind: 'number', min, max });
export const choice = (...choices: string[]): ValueKind => ({ kind: 'choice', choices });
