import { Violation } from './target.js';

export interface HttpAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

/**
 * The answers that came over a connection, in order.
 * @param headAsked whether a HEAD request may be among what was sent, whose answer has no body
 * @param complete the connection has ended; else an answer that is not whole yet is left out
 * @throws {Violation} for what is no sequence of HTTP/1.1 answers
 */
export function readAnswers(bytes: Buffer, headAsked: boolean, complete: boolean): HttpAnswer[] {
  const answers: HttpAnswer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf('\r\n\r\n', at);
    if (end < 0) {
      if (complete) throw new Violation(`an answer's head has no end: ${shown(bytes.subarray(at))}`);
      return answers;
    }
    const [line = '', ...fields] = bytes.toString('latin1', at, end).split('\r\n');
    const status = /^HTTP\/1\.[01] ([1-5]\d\d) [^\r\n]*$/.exec(line)?.[1];
    if (status === undefined) throw new Violation(`no status line: ${shown(Buffer.from(line))}`);
    const headers = new Map<string, string>();
    for (const field of fields) {
      const parsed = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\0\r\n]*)$/.exec(field);
      if (parsed === null) throw new Violation(`no header: ${shown(Buffer.from(field))}`);
      headers.set((parsed[1] ?? '').toLowerCase(), parsed[2] ?? '');
    }
    at = end + 4;
    const code = Number(status);
    if (code < 200) continue;
    const found =
      code === 204 || code === 304 ? { body: Buffer.alloc(0), next: at } : bodyAt(bytes, at, headers, headAsked, complete);
    if (found === undefined) return answers;
    answers.push({ status: code, headers, body: found.body });
    at = found.next;
  }
  return answers;
}

type Found = { readonly body: Buffer; readonly next: number } | undefined;

function bodyAt(bytes: Buffer, at: number, headers: ReadonlyMap<string, string>, headAsked: boolean, complete: boolean): Found {
  const none = { body: Buffer.alloc(0), next: at };
  const cut = (why: string): Found => {
    if (headAsked && (at === bytes.length || bytes.toString('latin1', at, at + 5) === 'HTTP/')) return none;
    if (complete) throw new Violation(`an answer's body is not whole: ${why}`);
    return undefined;
  };
  if (/chunked/i.test(headers.get('transfer-encoding') ?? '')) return chunkedAt(bytes, at, cut);
  const text = headers.get('content-length');
  if (text === undefined) return complete ? { body: bytes.subarray(at), next: bytes.length } : undefined;
  if (!/^\d+$/.test(text)) throw new Violation(`content-length: ${text}`);
  const length = Number(text);
  if (headAsked && length > 0 && bytes.toString('latin1', at, at + 5) === 'HTTP/') return none;
  if (bytes.length - at < length) return cut(`${bytes.length - at} of ${length} bytes`);
  return { body: bytes.subarray(at, at + length), next: at + length };
}

function chunkedAt(bytes: Buffer, start: number, cut: (why: string) => Found): Found {
  const pieces: Buffer[] = [];
  for (let at = start; ;) {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0) return cut('a chunk without its size');
    const size = Number.parseInt(bytes.toString('latin1', at, end), 16);
    if (Number.isNaN(size)) return cut('a chunk with a broken size');
    at = end + 2;
    if (size === 0) {
      // Trailers, then an empty line.
      for (;;) {
        const line = bytes.indexOf('\r\n', at);
        if (line < 0) return cut('no end of the trailers');
        const empty = line === at;
        at = line + 2;
        if (empty) return { body: Buffer.concat(pieces), next: at };
      }
    }
    if (bytes.length < at + size + 2) return cut('a chunk cut off');
    pieces.push(bytes.subarray(at, at + size));
    at += size + 2;
  }
}

export const shown = (bytes: Buffer): string => JSON.stringify(bytes.toString('latin1', 0, 200));
