import type { InferenceRequest } from '@onnxserve/handler-kit';
import { rowOf, valueOf } from './row.js';

function textOf(value: unknown): string {
  return value instanceof Uint8Array
    ? Buffer.from(value).toString('utf8')
    : typeof value === 'string'
      ? value
      : JSON.stringify(value);
}

/** The bytes of the row, whatever their type says. */
function bytesOf(request: InferenceRequest): string {
  const row = rowOf(request);
  return request.parts().length === 1 && request.contentType === 'application/json' ? request.text() : textOf(valueOf(row));
}

export function pre(request: InferenceRequest): string {
  const text = bytesOf(request);
  if (text === 'boom') throw new Error('asked to fail');
  return `pre(${text})`;
}

export function post(request: InferenceRequest): string {
  return JSON.stringify({ post: bytesOf(request) });
}

export function split(request: InferenceRequest): Uint8Array {
  return request.body();
}

/** One key for each node before it. */
export function aggregate(request: InferenceRequest): string {
  const parts = request.parts().map(({ name, data }) => [name, Buffer.from(data).toString('utf8')] as const);
  return JSON.stringify(Object.fromEntries(parts.sort(([a], [b]) => (a < b ? -1 : 1))));
}
