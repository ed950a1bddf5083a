import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { PredictionError } from '../errors.js';

/** More layers than any honest client uses. */
const maxLayers = 3;

type Decompress = (data: Uint8Array, options: { maxOutputLength: number }) => Buffer;

const decompressors: Readonly<Record<string, Decompress>> = {
  gzip: gunzipSync,
  'x-gzip': gunzipSync,
  br: brotliDecompressSync,
  // The name means a zlib stream; some clients send the bare deflate data.
  deflate: (data, options) => (hasZlibHeader(data) ? inflateSync(data, options) : inflateRawSync(data, options)),
};

/**
 * Undoes `content-encoding`.
 * @param limit bytes that the decompressed body may have
 * @throws {PredictionError} 415 unknown encoding, 413 over the limit, 400 corrupt or cut
 */
export function decompress(body: Uint8Array, contentEncoding: string | undefined, limit: number): Uint8Array {
  if (contentEncoding === undefined) return body;
  const layers = contentEncoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (layers.length > maxLayers) {
    throw new PredictionError(`content-encoding names ${layers.length} encodings, at most ${maxLayers} are accepted`, 415);
  }
  let data = body;
  for (const name of layers.reverse()) {
    const run = Object.hasOwn(decompressors, name) ? decompressors[name] : undefined;
    if (!run) throw new PredictionError(`content-encoding "${name}" is not supported; use gzip, deflate, br or identity`, 415);
    if (data.byteLength > 0) data = inflate(run, name, data, limit);
  }
  return data;
}

function inflate(run: Decompress, name: string, data: Uint8Array, limit: number): Uint8Array {
  try {
    return run(data, { maxOutputLength: Math.max(1, limit) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new PredictionError(`the decompressed body is larger than ${limit} bytes, the limit set by max_request_size`, 413, {
        reason: 'input-too-large',
      });
    }
    throw new PredictionError(`the body is not valid ${name} data (${(error as Error).message})`, 400, { cause: error });
  }
}

function hasZlibHeader(data: Uint8Array): boolean {
  return data.length >= 2 && (data[0]! & 0x0f) === 8 && ((data[0]! << 8) | data[1]!) % 31 === 0;
}
