import type { RequestInit } from '../create-request.js';
import { stringify } from '../encode/json.js';
import type { NamedTensors } from '../tensor.js';

/** One part of a multipart payload. */
export interface PayloadPart {
  readonly name: string;
  readonly data: string | Uint8Array;
  readonly filename?: string;
  readonly contentType?: string;
}

/** A request in full. */
export interface PayloadRequest {
  readonly body?: string | Uint8Array;
  /** Sent as `application/json`. */
  readonly json?: unknown;
  /** Sent as `multipart/form-data`. */
  readonly parts?: readonly PayloadPart[];
  readonly tensors?: NamedTensors;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly urlPath?: string;
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
  readonly kind?: 'predict' | 'explain';
  readonly id?: string;
  /** The sequence that the request belongs to, and its marks. */
  readonly sequence?: { readonly id: string; readonly start?: boolean; readonly end?: boolean };
  readonly signal?: AbortSignal;
}

/** Bytes and text are sent as they are, without a content type; `request()` builds the rest; other values are sent as JSON. */
export type Payload = string | Uint8Array | object | number | boolean | null;

const brand = Symbol('request');

/** A payload with headers, parts, tensors or parameters. */
export function request(options: PayloadRequest): PayloadRequest {
  return Object.defineProperty({ ...options }, brand, { value: true });
}

/** A payload of `multipart/form-data`. */
export function multipart(parts: readonly PayloadPart[]): PayloadRequest {
  return request({ parts });
}

export function toRequestInit(payload: Payload, number: number): RequestInit {
  const full = fullRequest(payload);
  const { body, contentType } = bodyOf(full);
  const headers = { ...(contentType === undefined ? {} : { 'content-type': contentType }), ...lowerCase(full.headers ?? {}) };
  return {
    id: full.id ?? `test-${number}`,
    kind: full.kind ?? 'predict',
    rawHeaders: Object.entries(headers).flat(),
    urlPath: full.urlPath ?? '',
    query: Object.entries(full.query ?? {}),
    body,
    ...(full.parameters === undefined ? {} : { parameters: full.parameters }),
    ...(full.tensors === undefined ? {} : { tensors: full.tensors }),
    ...(full.sequence === undefined ? {} : { sequence: { start: false, end: false, ...full.sequence } }),
    signal: full.signal ?? new AbortController().signal,
    maxDecompressedBytes: Number.MAX_SAFE_INTEGER,
  };
}

function fullRequest(payload: Payload): PayloadRequest {
  if (typeof payload === 'object' && payload !== null && brand in payload) return payload as PayloadRequest;
  return typeof payload === 'string' || payload instanceof Uint8Array ? { body: payload } : { json: payload };
}

function bodyOf({ body, json, parts }: PayloadRequest): { body: Uint8Array; contentType?: string } {
  if (parts !== undefined) return encodeMultipart(parts);
  if (json !== undefined) return { body: Buffer.from(stringify(json) ?? 'null'), contentType: 'application/json' };
  return { body: body === undefined ? new Uint8Array() : toBytes(body) };
}

function encodeMultipart(parts: readonly PayloadPart[]): { body: Uint8Array; contentType: string } {
  let boundary = 'handler-kit-boundary';
  while (parts.some((part) => Buffer.from(toBytes(part.data)).includes(boundary))) boundary += 'x';
  const pieces = parts.flatMap(({ name, data, filename, contentType }) => [
    Buffer.from(
      `--${boundary}\r\ncontent-disposition: form-data; name=${quoted(name)}` +
        `${filename === undefined ? '' : `; filename=${quoted(filename)}`}\r\n` +
        `${contentType === undefined ? '' : `content-type: ${contentType}\r\n`}\r\n`,
    ),
    toBytes(data),
    Buffer.from('\r\n'),
  ]);
  return {
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
    contentType: `multipart/form-data; boundary=${boundary}`,
  };
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function toBytes(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? Buffer.from(data, 'utf8') : data;
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
