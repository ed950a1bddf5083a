import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { ResponseControls } from './context.js';

export type Header = [name: string, value: string];

/** Set by the server: a handler that got them wrong would break the connection for whoever comes next. */
const owned = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'trailer', 'upgrade']);

/** What a handler set for its answer, as it set it. */
export interface AnswerControls {
  readonly status: number | undefined;
  readonly contentType: string | undefined;
  readonly headers: Iterable<readonly [name: string, value: string]>;
}

/** `ctx.response`: checks at once what a handler sets, and remembers it. */
export class RecordedControls implements ResponseControls {
  #status: number | undefined;
  #contentType: string | undefined;
  readonly #headers: Header[] = [];

  status(code: number): void {
    this.#status = checkedStatus(code);
  }

  header(name: string, value: string): void {
    this.#headers.push(checkHeader(name, value));
  }

  contentType(value: string): void {
    this.#contentType = checkHeader('content-type', value)[1];
  }

  get set(): AnswerControls {
    return { status: this.#status, contentType: this.#contentType, headers: this.#headers };
  }
}

/** @throws {RangeError} */
export function checkedStatus(code: unknown): number {
  if (typeof code === 'number' && Number.isInteger(code) && code >= 200 && code <= 599) return code;
  throw new RangeError(`the handler set the status ${String(code)}; it must be a whole number from 200 to 599`);
}

/** @throws {TypeError} for what HTTP cannot carry, and for headers that the server sets itself */
export function checkHeader(name: string, value: unknown): Header {
  const text = typeof value === 'number' ? String(value) : value;
  try {
    validateHeaderName(name);
    if (typeof text !== 'string') throw new TypeError('its value is not text');
    validateHeaderValue(name, text);
    if (owned.has(name.toLowerCase())) throw new TypeError('the server sets it itself');
    return [name, text];
  } catch (error) {
    throw new TypeError(`the handler set an illegal header ${JSON.stringify(name)}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
