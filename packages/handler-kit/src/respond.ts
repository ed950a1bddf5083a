import type { Chunk, HandlerResponse } from './handler.js';

const brand: unique symbol = Symbol.for('onnxserve.HandlerResponse') as never;

/**
 * A result with its own status and headers. What it says wins over `ctx.response`, except for the content type.
 * @param body as a result without `respond`: text, bytes, JSON, or an async iterable that is streamed
 * @param options.status 200 to 599; default 200
 */
export function respond(
  body: HandlerResponse['body'] | AsyncIterable<Chunk>,
  options: { status?: number; headers?: Readonly<Record<string, string>> } = {},
): HandlerResponse {
  const response: HandlerResponse = { body, ...options };
  Object.defineProperty(response, brand, { value: true });
  return response;
}

/** True for what `respond` of any copy of this package has made. */
export function isHandlerResponse(value: object): value is HandlerResponse {
  return brand in value;
}
