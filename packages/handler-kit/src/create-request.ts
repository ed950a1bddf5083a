import { decodeText } from './decode/charset.js';
import { decompress } from './decode/decompress.js';
import { type DecodedPart, parseForm } from './decode/form.js';
import { type HeaderValue, parseHeaderValue } from './decode/header-value.js';
import { parseJson, validate } from './decode/json.js';
import { parseMultipart } from './decode/multipart.js';
import { stringify } from './encode/json.js';
import { PredictionError } from './errors.js';
import type { InferenceRequest, RequestPart, StandardSchema } from './request.js';
import type { SequencePlace } from './sequence.js';
import type { NamedTensors } from './tensor.js';

/** What a server has before anything is decoded. */
export interface RequestInit {
  readonly id: string;
  readonly kind: InferenceRequest['kind'];
  /** `[name, value, name, value, ...]` */
  readonly rawHeaders: readonly string[];
  readonly urlPath: string;
  readonly query: ReadonlyArray<readonly [string, string]>;
  /** Query parameters are parts too, before those of the body. */
  readonly queryIsInput?: boolean;
  /** As it came, still compressed when `content-encoding` says so. */
  readonly body: Uint8Array;
  /** The body is the values of named inputs, one after the other: name and length in bytes of each. Nothing of it is decoded then. */
  readonly parts?: ReadonlyArray<readonly [name: string, length: number]> | undefined;
  /** The request is one value of a larger body, already decoded: a JSON value in place of `body` and its headers. */
  readonly value?: { readonly json: unknown } | undefined;
  readonly parameters?: Readonly<Record<string, string | number | boolean>> | undefined;
  readonly tensors?: NamedTensors | undefined;
  readonly sequence?: SequencePlace | undefined;
  readonly signal: AbortSignal;
  /** Limit on the decompressed body in bytes; default 6,553,500, the server's own default. */
  readonly maxDecompressedBytes?: number;
}

const jsonType: HeaderValue = { value: 'application/json', parameters: new Map() };
const defaultMaxBytes = 6_553_500;
const nothing: Readonly<Record<string, never>> = Object.freeze({});

export function createRequest(init: RequestInit): InferenceRequest {
  return new DecodingRequest(init);
}

/** Decodes on first use and keeps the result. */
class DecodingRequest implements InferenceRequest {
  readonly #init: RequestInit;
  #headers: Record<string, string> | undefined;
  #type: HeaderValue | undefined | null = null;
  #raw: Uint8Array | undefined;
  #parts: readonly DecodedPart[] | undefined;

  constructor(init: RequestInit) {
    this.#init = init;
  }

  get id(): string {
    return this.#init.id;
  }
  get kind(): InferenceRequest['kind'] {
    return this.#init.kind;
  }
  get rawHeaders(): readonly string[] {
    return this.#init.rawHeaders;
  }
  get urlPath(): string {
    return this.#init.urlPath;
  }
  get query(): ReadonlyArray<readonly [string, string]> {
    return this.#init.query;
  }
  get parameters(): Readonly<Record<string, string | number | boolean>> {
    return this.#init.parameters ?? nothing;
  }
  get tensors(): NamedTensors | undefined {
    return this.#init.tensors;
  }
  get sequence(): SequencePlace | undefined {
    return this.#init.sequence;
  }
  get signal(): AbortSignal {
    return this.#init.signal;
  }

  get headers(): Readonly<Record<string, string>> {
    if (this.#headers) return this.#headers;
    const headers = Object.create(null) as Record<string, string>;
    const { rawHeaders } = this.#init;
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const name = rawHeaders[at]!.toLowerCase();
      const before = headers[name];
      headers[name] = before === undefined ? rawHeaders[at + 1]! : `${before}, ${rawHeaders[at + 1]!}`;
    }
    this.#headers = headers;
    return headers;
  }

  get contentType(): string | undefined {
    const value = this.#headerValue()?.value;
    return value === '' ? undefined : value;
  }

  body(): Uint8Array {
    return this.#isForm() ? (this.#mainPart()?.data ?? new Uint8Array()) : this.#decompressed();
  }

  text(): string {
    if (!this.#isForm()) return decodeText(this.#decompressed(), this.#headerValue()?.parameters.get('charset'));
    const part = this.#mainPart();
    return part ? decodeText(part.data, part.charset) : '';
  }

  json(): unknown;
  json<Output>(schema: StandardSchema<Output>): Promise<Output>;
  json<Output>(schema?: StandardSchema<Output>): unknown {
    if (schema === undefined) return this.#json();
    return (async () => validate(this.#json(), schema))();
  }

  #json(): unknown {
    return this.#init.value === undefined ? parseJson(this.#jsonText()) : this.#init.value.json;
  }

  #jsonText(): string {
    const text = this.text();
    if (text === '' && this.contentType === 'application/x-www-form-urlencoded') {
      throw new PredictionError(
        'JSON is expected, but the body came as a form (content-type application/x-www-form-urlencoded) without a value; send it with content-type application/json',
        400,
      );
    }
    return text;
  }

  parts(): readonly RequestPart[] {
    const parts = this.#decodedParts();
    if (this.#init.queryIsInput !== true) return parts;
    const inputs = this.query.map(([name, value]) => ({
      name,
      filename: undefined,
      contentType: undefined,
      data: Buffer.from(value),
    }));
    return [...inputs, ...parts];
  }

  part(name: string): RequestPart | undefined {
    return this.parts().findLast((part) => part.name === name);
  }

  #headerValue(): HeaderValue | undefined {
    if (this.#init.value !== undefined) return jsonType;
    if (this.#type === null) {
      const text = this.headers['content-type'];
      this.#type =
        text === undefined
          ? undefined
          : (parseHeaderValue(text) ?? { value: text.split(';')[0]!.trim().toLowerCase(), parameters: new Map() });
    }
    return this.#type;
  }

  #isForm(): boolean {
    if (this.#init.parts !== undefined) return true;
    const type = this.contentType;
    if (type === 'multipart/form-data') return true;
    if (type !== 'application/x-www-form-urlencoded') return false;
    // `curl -d '{...}'` sends JSON under this type. As a form it would be one nonsensical name without a value.
    const first = this.#decompressed()[0];
    return first !== 0x7b && first !== 0x5b;
  }

  #decompressed(): Uint8Array {
    const { value } = this.#init;
    if (value !== undefined) return (this.#raw ??= bytesOf(value.json));
    this.#raw ??= decompress(
      this.#init.body,
      this.headers['content-encoding'],
      this.#init.maxDecompressedBytes ?? defaultMaxBytes,
    );
    return this.#raw;
  }

  #decodedParts(): readonly DecodedPart[] {
    this.#parts ??= this.#decodeParts();
    return this.#parts;
  }

  #decodeParts(): readonly DecodedPart[] {
    if (this.#init.parts !== undefined) return namedParts(this.#init.body, this.#init.parts);
    const data = this.#decompressed();
    const type = this.#headerValue();
    if (type?.value === 'multipart/form-data') return parseMultipart(data, type.parameters.get('boundary'));
    if (type?.value === 'application/x-www-form-urlencoded') return parseForm(data);
    return [{ name: 'body', filename: undefined, contentType: this.contentType, charset: type?.parameters.get('charset'), data }];
  }

  #mainPart(): DecodedPart | undefined {
    const parts = this.#decodedParts();
    return parts.findLast((part) => part.name === 'data') ?? parts.findLast((part) => part.name === 'body') ?? parts[0];
  }
}

/** Text stands for itself, so that a handler of text need not know where it came from; anything else is written as JSON. */
function bytesOf(value: unknown): Uint8Array {
  return Buffer.from(typeof value === 'string' ? value : (stringify(value) ?? ''));
}

function namedParts(body: Uint8Array, named: ReadonlyArray<readonly [name: string, length: number]>): DecodedPart[] {
  let at = 0;
  return named.map(([name, length]) => {
    const data = body.subarray(at, (at += length));
    return { name, filename: undefined, contentType: undefined, charset: undefined, data };
  });
}
