import { PredictionError } from '../errors.js';
import type { InferenceRequest } from '../request.js';

/** The pictures of a request, and whether they came as instances, which are answered as a list. */
export interface Pictures {
  readonly files: readonly Uint8Array[];
  readonly asList: boolean;
}

/**
 * A body of picture bytes, a multipart with one, or JSON: `{"instances": [{"b64": "..."}]}`, `{"data": "..."}` or text in base64.
 * @throws {PredictionError} 400
 */
export function picturesOf(request: InferenceRequest): Pictures {
  if (request.tensors !== undefined) {
    const bytes = Object.values(request.tensors).find((tensor) => tensor.datatype === 'BYTES');
    if (!bytes) throw new PredictionError('a picture is wanted: send a BYTES tensor that holds the file', 400);
    return { files: (bytes.data as Array<string | Uint8Array>).map((item, index) => fileOf(item, index)), asList: true };
  }
  if (request.contentType !== 'application/json') return { files: [request.body()], asList: false };
  const body = request.json();
  const instances = typeof body === 'object' && body !== null ? (body as { instances?: unknown }).instances : undefined;
  if (instances === undefined) return { files: [fileOf(body, 0)], asList: false };
  if (!Array.isArray(instances) || instances.length === 0) {
    throw new PredictionError('"instances" should be an array with at least one picture', 400);
  }
  return { files: instances.map((item, index) => fileOf(item, index)), asList: true };
}

function fileOf(value: unknown, index: number): Uint8Array {
  if (value instanceof Uint8Array) return value;
  let text = value;
  for (const key of ['b64', 'data', 'body', 'image_bytes', 'image']) {
    if (typeof text === 'object' && text !== null && key in text) text = (text as Record<string, unknown>)[key];
  }
  if (typeof text === 'object' && text !== null && 'b64' in text) text = text.b64;
  if (typeof text !== 'string') {
    throw new PredictionError(`picture ${index} should be base64 text or an object with "b64"`, 400);
  }
  const base64 = text.replace(/^data:[^,]*;base64,/, '').replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(base64)) throw new PredictionError(`picture ${index} is not valid base64`, 400);
  return Buffer.from(base64, 'base64');
}
