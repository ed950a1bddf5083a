import { PredictionError } from '../errors.js';

/** Parts of a multipart or form body; a bound on what a small body can make us allocate. */
export const maxParts = 1000;

export interface DecodedPart {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
  readonly charset: string | undefined;
  readonly data: Uint8Array;
}

/**
 * Fields of an `application/x-www-form-urlencoded` body, in order; values are the bytes that the client meant.
 * @throws {PredictionError} 400 for a percent sign without two hex digits, 413 for more than 1000 fields
 */
export function parseForm(body: Uint8Array): DecodedPart[] {
  const parts: DecodedPart[] = [];
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1');
  for (const pair of text.split('&', maxParts + 1)) {
    if (pair === '') continue;
    if (parts.length === maxParts) throw tooManyParts('form');
    const equals = pair.indexOf('=');
    const name = percentDecode(equals === -1 ? pair : pair.slice(0, equals)).toString('utf8');
    const data = percentDecode(equals === -1 ? '' : pair.slice(equals + 1));
    parts.push({ name, filename: undefined, contentType: undefined, charset: undefined, data });
  }
  return parts;
}

export function tooManyParts(kind: string): PredictionError {
  return new PredictionError(`the ${kind} body has more than ${maxParts} parts, the limit`, 413, { reason: 'input-too-large' });
}

function percentDecode(text: string): Buffer {
  const bytes = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if (code === 0x2b) code = 0x20;
    else if (code === 0x25) {
      const hex = text.slice(at + 1, at + 3);
      if (!/^[0-9a-f]{2}$/i.test(hex)) {
        throw new PredictionError(`the form body has "%${hex}", a percent sign must be followed by two hex digits`, 400);
      }
      code = parseInt(hex, 16);
      at += 2;
    }
    bytes[length++] = code;
  }
  return bytes.subarray(0, length);
}
