import { stringify } from './encode/json.js';
import { isNamedTensors, tensorToJson } from './encode/tensors.js';
import { type AnswerControls, type Header, checkedStatus, checkHeader } from './response-controls.js';
import { isHandlerResponse } from './respond.js';

/** An answer ready to be sent. */
export interface EncodedResult {
  readonly status: number;
  readonly headers: Header[];
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
}

const text = 'text/plain; charset=utf-8';
const json = 'application/json';
/** Statuses whose answers have no body by definition. */
const bodiless = new Set([204, 205, 304]);

interface Encoded {
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
  readonly contentType?: string;
}

/**
 * A handler's result as status, headers and body. Text gets `text/plain`, bytes no type at all, anything else is JSON; tensors by
 * name become nested arrays by name.
 * @param controls what the handler set through `ctx.response`
 * @throws {Error} saying what the handler did wrong; its own bug, so not for the client
 */
export function encodeResult(result: unknown, controls: AnswerControls): EncodedResult {
  let value = result;
  let status = controls.status === undefined ? undefined : checkedStatus(controls.status);
  const headers = new Map<string, Header>();
  if (typeof result === 'object' && result !== null) {
    if (isHandlerResponse(result)) {
      value = result.body;
      if (result.status !== undefined) status = checkedStatus(result.status);
      for (const [name, content] of Object.entries(result.headers ?? {})) setHeader(headers, name, content);
    } else if (result instanceof Response) {
      status = checkedStatus(result.status);
      for (const [name, content] of headersOf(result)) setHeader(headers, name, content);
      value = result.body ?? new Uint8Array();
    }
  }
  const encoded = bodiless.has(status ?? 200) ? { body: new Uint8Array() } : encodeBody(value);
  const set = new Map<string, Header>();
  for (const [name, content] of controls.headers) setHeader(set, name, content);
  if (controls.contentType !== undefined) setHeader(set, 'content-type', controls.contentType);
  for (const [name, header] of set) if (name === 'content-type' || !headers.has(name)) headers.set(name, header);
  if (encoded.contentType !== undefined && !headers.has('content-type')) {
    headers.set('content-type', ['content-type', encoded.contentType]);
  }
  return { status: status ?? 200, headers: [...headers.values()], body: encoded.body };
}

/** One piece of a streamed answer: text, bytes, or an object as one line of JSON. */
export function encodeChunk(chunk: unknown): Uint8Array {
  if (typeof chunk === 'string') return Buffer.from(chunk, 'utf8');
  if (chunk instanceof Uint8Array) return chunk;
  const line = stringify(chunk);
  if (line === undefined)
    throw new TypeError('the handler streamed undefined; a chunk is text, bytes or something JSON can hold');
  return Buffer.from(`${line}\n`, 'utf8');
}

function encodeBody(value: unknown): Encoded {
  if (typeof value === 'string') return { body: Buffer.from(value, 'utf8'), contentType: text };
  if (value instanceof Uint8Array) return { body: value };
  if (value instanceof ArrayBuffer) return { body: new Uint8Array(value) };
  if (value === undefined) {
    throw new TypeError('the handler returned nothing (undefined); return a result, or null for the JSON value null');
  }
  if (typeof value === 'object' && value !== null && Symbol.asyncIterator in value) {
    return { body: encodeStream(value as AsyncIterable<unknown>) };
  }
  if (value instanceof Promise) throw new TypeError('the handler returned a promise inside its result; await it first');
  const plain = isNamedTensors(value)
    ? Object.fromEntries(Object.entries(value).map(([name, tensor]) => [name, tensorToJson(tensor)]))
    : value;
  const written = stringify(plain);
  if (written === undefined) throw new TypeError('the handler returned something whose toJSON gives undefined');
  return { body: Buffer.from(written, 'utf8'), contentType: json };
}

async function* encodeStream(chunks: AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield encodeChunk(chunk);
}

function setHeader(headers: Map<string, Header>, name: string, value: unknown): void {
  const key = name.toLowerCase();
  // The one header whose values cannot be joined.
  headers.set(key === 'set-cookie' ? `${key} ${String(value)}` : key, checkHeader(name, value));
}

/** Without what describes the connection that the answer of a `fetch` came over. */
function headersOf(response: Response): Header[] {
  const dropped = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'trailer', 'upgrade']);
  // `fetch` has decoded the body already.
  if (response.url !== '') dropped.add('content-encoding');
  return [...response.headers].filter(([name]) => !dropped.has(name));
}
