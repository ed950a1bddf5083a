import { ServeError } from '../domain/errors.js';

/** What the HTTP layer alone decides; a handler's value is dropped. */
const reserved = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'server-timing',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
]);
const token = /^[!#$%&'*+.^_`|~0-9a-zA-Z-]+$/;
// oxlint-disable-next-line no-control-regex
const badValue = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Headers of an inference answer: the handler's first, then ours where the handler did not set them.
 * @param ours `[name, value, ...]`
 * @throws {ServeError} HANDLER_FAILED naming an illegal header
 */
export function mergeHeaders(theirs: ReadonlyArray<readonly [string, string]>, ours: readonly string[]): string[] {
  if (theirs.length === 0) return [...ours];
  const merged: string[] = [];
  const taken = new Set<string>();
  for (const [name, value] of theirs) {
    const key = name.toLowerCase();
    if (!token.test(name) || badValue.test(value)) {
      throw new ServeError(
        'HANDLER_FAILED',
        `The handler set the header ${JSON.stringify(name.slice(0, 80))}, which is not legal in HTTP.`,
      );
    }
    if (reserved.has(key)) continue;
    taken.add(key);
    merged.push(name, value);
  }
  for (let index = 0; index < ours.length; index += 2) {
    const name = ours[index] as string;
    if (!taken.has(name.toLowerCase())) merged.push(name, ours[index + 1] as string);
  }
  return merged;
}

/** @throws {ServeError} HANDLER_FAILED when the status cannot be an answer's */
export function checkStatus(status: number): number {
  if (Number.isInteger(status) && status >= 200 && status <= 999) return status;
  throw new ServeError('HANDLER_FAILED', `The handler set the status ${status}; an answer's status is a number from 200 to 999.`);
}
