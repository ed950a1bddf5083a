import { isUtf8 } from 'node:buffer';
import { PredictionError } from '../errors.js';

/** What stands for 0x80 to 0x9f. */
const windows1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

/**
 * Bytes as text, a byte order mark removed. Every charset of the Encoding standard is known; `latin1` is the
 * real one, byte by byte. Plain `utf-16` follows its byte order mark and is little endian without one.
 * @param charset as the client named it; UTF-8 when it named none
 * @throws {PredictionError} 415 unknown charset, 400 bytes that are not valid in it
 */
export function decodeText(bytes: Uint8Array, charset: string | undefined): string {
  const name = charset?.trim().toLowerCase() ?? 'utf-8';
  switch (name) {
    case '':
    case 'utf-8':
    case 'utf8': {
      if (!isUtf8(bytes)) throw invalid('UTF-8');
      const bom = bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
      return view(bytes).toString('utf8', bom ? 3 : 0);
    }
    case 'latin1':
    case 'iso-8859-1':
      return view(bytes).toString('latin1');
    case 'windows-1252':
    case 'cp1252':
      // Decoded here because TextDecoder of some Nodes takes it for latin1.
      return view(bytes)
        .toString('latin1')
        .replace(/[\x80-\x9f]/g, (char) => windows1252[char.charCodeAt(0) - 0x80]!);
    case 'us-ascii':
    case 'ascii':
      if (bytes.some((byte) => byte > 0x7f)) throw invalid('US-ASCII');
      return view(bytes).toString('latin1');
    case 'utf-16':
      return decode(bytes, bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-16le');
    default:
      return decode(bytes, name);
  }
}

function decode(bytes: Uint8Array, name: string): string {
  let decoder;
  try {
    decoder = new TextDecoder(name, { fatal: true });
  } catch {
    throw new PredictionError(`charset "${name}" is not supported; send the text as UTF-8`, 415);
  }
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalid(name.toUpperCase());
  }
}

function invalid(charset: string): PredictionError {
  return new PredictionError(`the text is not valid ${charset}; send UTF-8, or name the charset in content-type`, 400);
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
