import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gzip as gzipCallback } from 'node:zlib';

const gzip = promisify(gzipCallback);
const threshold = 64 * 1024;
// Compressed already: another pass would only cost time.
const packed = /^(image\/(?!svg)|audio\/|video\/|application\/(zip|gzip|x-7z|zstd))/i;

/** True when an answer is large and of a kind that shrinks, so that it varies by Accept-Encoding. */
export function compressible(size: number, headers: ReadonlyArray<readonly [string, string]>): boolean {
  if (size <= threshold) return false;
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    if (key === 'content-encoding' || (key === 'content-type' && packed.test(value))) return false;
  }
  return true;
}

/** True when the client asked for gzip. */
export function acceptsGzip(request: IncomingMessage): boolean {
  const accepted = request.headers['accept-encoding'];
  if (typeof accepted !== 'string') return false;
  for (const part of accepted.split(',')) {
    const [name = '', ...parameters] = part.split(';');
    if (!/^\s*(x-)?gzip\s*$/i.test(name)) continue;
    return !parameters.some((parameter) => /^\s*q\s*=\s*0(\.0*)?\s*$/i.test(parameter));
  }
  return false;
}

/** Fast gzip off the event loop. */
export function compress(body: Buffer): Promise<Buffer> {
  return gzip(body, { level: 1 });
}
