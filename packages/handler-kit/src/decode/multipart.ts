import { isUtf8 } from 'node:buffer';
import { PredictionError } from '../errors.js';
import { type DecodedPart, maxParts, tooManyParts } from './form.js';
import { decodeExtendedValue, parseHeaderValue } from './header-value.js';

const maxPartHeaderBytes = 16 * 1024;
/** RFC 2046 allows 70; some clients send more. */
const maxBoundary = 256;

/**
 * The parts of a `multipart/form-data` body in order. The whole body is in memory already, so parts are views of it.
 * @throws {PredictionError} 400 for a body that is cut or malformed, 413 for more than 1000 parts
 */
export function parseMultipart(body: Uint8Array, boundary: string | undefined): DecodedPart[] {
  if (boundary === undefined || boundary === '') throw malformed('content-type has no boundary parameter');
  if (boundary.length > maxBoundary) throw malformed(`the boundary has more than ${maxBoundary} characters`);
  const data = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  const parts: DecodedPart[] = [];
  // The first delimiter may stand at the very start, without its line break.
  const atStart = data.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2));
  const first = (atStart ? lineAfter(data, delimiter.length - 2) : undefined) ?? nextDelimiter(data, delimiter, 0);
  if (!first) throw malformed(`the boundary "${boundary}" does not occur in the body`);
  let mark: Delimiter = first;
  while (!mark.last) {
    if (parts.length === maxParts) throw tooManyParts('multipart');
    const number = parts.length + 1;
    // A part without any header starts with the empty line at once.
    const emptyHead: boolean = data[mark.end] === 0x0d && data[mark.end + 1] === 0x0a;
    const headEnd: number = emptyHead ? mark.end - 2 : data.indexOf('\r\n\r\n', mark.end, 'latin1');
    const next: Delimiter | undefined = headEnd === -1 ? undefined : nextDelimiter(data, delimiter, headEnd + 2);
    if (headEnd === -1 || !next) throw malformed(`it ends within part ${number}, the closing boundary is missing`);
    if (headEnd - mark.end > maxPartHeaderBytes)
      throw malformed(`the headers of part ${number} exceed ${maxPartHeaderBytes} bytes`);
    const head = emptyHead ? data.subarray(0, 0) : data.subarray(mark.end, headEnd);
    parts.push(partOf(head, data.subarray(Math.min(headEnd + 4, next.start), next.start), number));
    mark = next;
  }
  return parts;
}

interface Delimiter {
  /** Where the content before it ends. */
  readonly start: number;
  /** Where the next part's headers begin. */
  readonly end: number;
  readonly last: boolean;
}

function nextDelimiter(data: Buffer, delimiter: Buffer, from: number): Delimiter | undefined {
  for (let at = data.indexOf(delimiter, from); at !== -1; at = data.indexOf(delimiter, at + 2)) {
    const line = lineAfter(data, at + delimiter.length);
    if (line) return { ...line, start: at };
  }
  return undefined;
}

/** The rest of a delimiter line; undefined when the boundary is only the beginning of something longer. */
function lineAfter(data: Buffer, at: number): Delimiter | undefined {
  if (data[at] === 0x2d && data[at + 1] === 0x2d) return { start: at, end: at + 2, last: true };
  let end = at;
  while (data[end] === 0x20 || data[end] === 0x09) end++;
  return data[end] === 0x0d && data[end + 1] === 0x0a ? { start: at, end: end + 2, last: false } : undefined;
}

function partOf(head: Buffer, data: Buffer, number: number): DecodedPart {
  const headers = partHeaders(head, number);
  const disposition = parseHeaderValue(headers.get('content-disposition') ?? '');
  const name = disposition?.parameters.get('name');
  if (disposition?.value !== 'form-data' || name === undefined) {
    throw malformed(`part ${number} has no content-disposition "form-data" with a name`);
  }
  const transfer = headers.get('content-transfer-encoding')?.toLowerCase() ?? 'binary';
  if (!['7bit', '8bit', 'binary'].includes(transfer)) {
    throw malformed(`part ${number} ("${name}") has content-transfer-encoding "${transfer}"; send the bytes as they are`);
  }
  const type = headers.get('content-type');
  const parsedType = type === undefined || type === '' ? undefined : parseHeaderValue(type);
  const filename = filenameOf(disposition.parameters, number);
  return {
    name,
    filename,
    contentType: parsedType?.value ?? (filename === undefined ? undefined : 'application/octet-stream'),
    charset: parsedType?.parameters.get('charset'),
    data,
  };
}

function partHeaders(head: Buffer, number: number): Map<string, string> {
  const headers = new Map<string, string>();
  if (head.length === 0) return headers;
  const text = head.toString(isUtf8(head) ? 'utf8' : 'latin1').replace(/\r\n[ \t]+/g, ' ');
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) throw malformed(`part ${number} has a header line without a name`);
    const name = line.slice(0, colon).trim().toLowerCase();
    if (!headers.has(name)) headers.set(name, line.slice(colon + 1).trim());
  }
  return headers;
}

function filenameOf(parameters: ReadonlyMap<string, string>, number: number): string | undefined {
  const extended = parameters.get('filename*');
  const plain = parameters.get('filename');
  const full = extended === undefined ? plain : (decodeExtendedValue(extended) ?? plain);
  if (extended !== undefined && full === undefined) throw malformed(`part ${number} has a filename* that cannot be decoded`);
  // Some clients send a whole path. Only the name is the file's, and a handler may be tempted to write to it.
  return full?.slice(Math.max(full.lastIndexOf('/'), full.lastIndexOf('\\')) + 1);
}

function malformed(why: string): PredictionError {
  return new PredictionError(`the multipart body is malformed: ${why}`, 400);
}
