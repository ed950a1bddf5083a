import type { Row } from './row.js';

const shownLimit = 256;

/** Name of a value's type in Python, which the recordings use. */
function typeName(value: unknown): string {
  if (value === null) return 'NoneType';
  if (Array.isArray(value)) return 'list';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float';
  return typeof value === 'boolean' ? 'bool' : 'dict';
}

function describe(value: unknown): object {
  if (value instanceof Uint8Array) {
    const shown = value.byteLength <= shownLimit ? { b64: Buffer.from(value).toString('base64') } : {};
    return { py: 'bytearray', len: value.byteLength, ...shown };
  }
  if (typeof value === 'string') return { py: 'str', value: value.length <= shownLimit ? value : value.length };
  return { py: typeName(value), value };
}

/** Everything about a row, as the recordings show it. */
export function inspect(row: Row, batch: number, index: number): object {
  const shown = Object.fromEntries([...row.values].map(([key, value]) => [key, describe(value)]));
  return { row_type: 'dict', row: shown, headers: row.headers, batch, index };
}
