import { toArray } from '../convert.js';
import { type NamedTensors, Tensor } from '../tensor.js';

/** True for an object of tensors by name; false for an empty one. */
export function isNamedTensors(value: unknown): value is NamedTensors {
  if (typeof value !== 'object' || value === null) return false;
  let some = false;
  for (const name in value) {
    if (!((value as Record<string, unknown>)[name] instanceof Tensor)) return false;
    some = true;
  }
  return some;
}

/** A tensor's elements as JSON holds them, nested like its shape. */
export function tensorToJson(tensor: Tensor): unknown {
  const values = toArray(tensor);
  return tensor.datatype === 'BYTES' ? readable(values) : values;
}

/** Bytes that are no UTF-8 have no form in JSON; they go as base64. */
export function readable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readable);
  if (!(value instanceof Uint8Array)) return value;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(value);
  } catch {
    return Buffer.from(value).toString('base64');
  }
}
