import { Metadata } from '@grpc/grpc-js';
import { ServeError } from '../../domain/errors.js';

/** What belongs to the call itself and says nothing about the input. */
const ofTheCall = new Set(['content-type', 'content-length', 'content-encoding', 'te', 'transfer-encoding', 'connection']);

/** A call's metadata as `[name, value, name, value, ...]`; binary entries stay base64, as they are on the wire. */
export function rawHeaders(metadata: Metadata): string[] {
  const headers: string[] = [];
  for (const name of Object.keys(metadata.getMap())) {
    if (ofTheCall.has(name) || name.startsWith('grpc-')) continue;
    for (const value of metadata.get(name)) headers.push(name, typeof value === 'string' ? value : value.toString('base64'));
  }
  return headers;
}

export function firstText(metadata: Metadata, name: string): string | undefined {
  const [value] = metadata.get(name);
  return typeof value === 'string' ? value : undefined;
}

const reserved = new Set([
  ...ofTheCall,
  'date',
  'keep-alive',
  'proxy-connection',
  'server-timing',
  'trailer',
  'upgrade',
  'x-error-reason',
  'x-request-id',
]);
const legalName = /^[0-9a-z_.-]+$/;

/**
 * Headers that a handler set, as initial metadata. What describes an HTTP body has no place in a message and is left out.
 * @throws {ServeError} HANDLER_FAILED naming a header that metadata cannot hold
 */
export function headerMetadata(headers: ReadonlyArray<readonly [string, string]>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    if (reserved.has(key) || key.startsWith('grpc-') || key.endsWith('-bin')) continue;
    if (!legalName.test(key)) {
      throw new ServeError(
        'HANDLER_FAILED',
        `The handler set the header ${JSON.stringify(name.slice(0, 80))}, whose name is not legal in gRPC metadata.`,
      );
    }
    metadata.add(key, printable(value));
  }
  return metadata;
}

/** Text that fits into metadata: what is not printable ASCII is percent-encoded, lone surrogates replaced. */
export function printable(text: string): string {
  return /^[ -~]*$/.test(text) ? text : encodeURI(Buffer.from(text, 'utf8').toString('utf8'));
}
