import type { InferenceRequest } from '@onnxserve/handler-kit';

/** A request the way TorchServe gives it to Python: values by part name, and request properties beside them. */
export interface Row {
  readonly values: Map<string, unknown>;
  readonly headers: Record<string, unknown>;
}

/** False: bodies stay bytes whatever their type, as with `decode_input_request=false`. */
const decodes = process.env.KIT_DECODE_INPUT_REQUEST !== 'false';
const strictText = new TextDecoder('utf-8', { fatal: true });

/** JSON and text become values; what does not decode stays bytes. */
function decode(data: Uint8Array, contentType: string): unknown {
  if (!decodes) return data;
  try {
    if (contentType.startsWith('application/json')) return JSON.parse(strictText.decode(data));
    if (contentType.startsWith('text')) return strictText.decode(data);
  } catch {
    return data;
  }
  return data;
}

/** Header names keep their case; the length of a body that came without one is named as HTTP servers in Java do. */
function headersOf(request: InferenceRequest, form: boolean): Record<string, unknown> {
  const headers: Record<string, unknown> = {};
  const raw = request.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? '';
    if (name.toLowerCase() !== 'transfer-encoding') headers[name] = raw[i + 1];
  }
  const known = Object.keys(headers).some((name) => name.toLowerCase() === 'content-length');
  if (!known && !form) headers['content-length'] = String(request.body().byteLength);
  headers.explain = request.kind === 'explain' ? 'True' : 'False';
  headers.url_path = request.urlPath;
  return headers;
}

export function rowOf(request: InferenceRequest): Row {
  const type = request.contentType ?? '';
  const form = type === 'multipart/form-data' || type === 'application/x-www-form-urlencoded';
  const headers = headersOf(request, form);
  const values = new Map<string, unknown>();
  // A form field of the same name wins over a query parameter, which comes first; the whole body comes last.
  const parts = request.parts();
  const whole = parts.at(-1);
  for (const part of parts) {
    // Only a file and a whole body have a type; a form field is bytes.
    const typed = part.filename !== undefined || (!form && part === whole);
    const own = typed ? (part.contentType ?? (form ? 'application/octet-stream' : '')) : '';
    values.set(part.name, decode(part.data, own));
    headers[part.name] = { 'content-type': own };
  }
  return { values, headers };
}

/** What the row is about: `data` when there is one, else `body`; undefined when there is neither. */
export function valueOf(row: Row): unknown {
  return row.values.get('data') ?? row.values.get('body');
}

export type Arguments = Record<string, unknown>;

function isObject(value: unknown): value is Arguments {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/** The arguments that a row carries: an object, text or bytes that hold one, and every key that starts with `kit_`. */
export function argumentsOf(row: Row): Arguments {
  let value = valueOf(row);
  if (value instanceof Uint8Array) value = Buffer.from(value).toString('utf8');
  if (typeof value === 'string') {
    try {
      value = JSON.parse(value) as unknown;
    } catch {
      value = undefined;
    }
  }
  const given: Arguments = isObject(value) ? { ...value } : {};
  for (const [key, own] of row.values) {
    if (key.startsWith('kit_')) given[key.slice(4)] = own instanceof Uint8Array ? Buffer.from(own).toString('utf8') : own;
  }
  return given;
}
