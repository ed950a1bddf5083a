import type { KeySpec } from './key-spec.js';

export type ReadResult<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

const no = (message: string): { ok: false; message: string } => ({ ok: false, message });

/** A sentence when the value is written in quotes, which a properties file takes literally. */
export function quoteProblem(spec: KeySpec, text: string): string | undefined {
  if (spec.value.kind === 'json' || spec.value.kind === 'regex' || !/^(["']).*\1$/s.test(text) || text.length < 2)
    return undefined;
  const shown = spec.secret ? '' : `; write ${spec.name}=${text.slice(1, -1)}`;
  return `${spec.name}: drop the quotes, a properties file takes them as part of the value${shown}`;
}

export function readNumber(spec: KeySpec, text: string): ReadResult<number> {
  const kind = spec.value;
  if (kind.kind !== 'integer' && kind.kind !== 'number') throw new TypeError(`${spec.name} is no number`);
  const range = `${kind.min} to ${kind.max}${spec.unit === undefined ? '' : ` ${spec.unit}`}`;
  const shape = kind.kind === 'integer' ? /^[+-]?\d+$/ : /^[+-]?(?:\d+\.?\d*|\.\d+)$/;
  if (!shape.test(text))
    return no(`${spec.name}=${text} is no ${kind.kind === 'integer' ? 'whole number' : 'number'}; allowed is ${range}`);
  const value = Number(text);
  if (value < kind.min || value > kind.max) return no(`${spec.name}=${text} is out of range; allowed is ${range}`);
  return { ok: true, value };
}

export function readBoolean(spec: KeySpec, text: string): ReadResult<boolean> {
  const value = text.toLowerCase();
  if (value !== 'true' && value !== 'false') return no(`${spec.name}=${text} must be true or false`);
  return { ok: true, value: value === 'true' };
}

export function readChoice(spec: KeySpec, text: string): ReadResult<string> {
  if (spec.value.kind !== 'choice') throw new TypeError(`${spec.name} is no choice`);
  const value = text.toLowerCase();
  if (!spec.value.choices.includes(value)) return no(`${spec.name}=${text} must be one of ${spec.value.choices.join(', ')}`);
  return { ok: true, value };
}

export function readRegex(spec: KeySpec, text: string): ReadResult<string> {
  try {
    void new RegExp(text);
    return { ok: true, value: text };
  } catch (error) {
    return no(`${spec.name}=${text} is no regular expression: ${(error as Error).message}`);
  }
}

/** A comma list of regular expressions. */
export function readPatterns(spec: KeySpec, text: string): ReadResult<string[]> {
  const patterns = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));
  for (const pattern of patterns) {
    const result = readRegex(spec, pattern);
    if (!result.ok) return result;
  }
  return { ok: true, value: patterns };
}
