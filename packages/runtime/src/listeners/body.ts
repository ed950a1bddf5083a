import type { IncomingMessage } from 'node:http';
import type { ByteBudget } from '../admission/byte-budget.js';
import { ServeError } from '../domain/errors.js';

const empty = Buffer.alloc(0);
const firstCapacity = 64 * 1024;

/** True when the request announces a body. */
export function hasBody(request: IncomingMessage): boolean {
  const { headers } = request;
  return (
    headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0')
  );
}

function overloaded({ limit, used }: ByteBudget): ServeError {
  return new ServeError(
    'OVERLOADED',
    `The bodies of all requests that are here take ${used} of ${limit} bytes (max_body_memory), and this one does not fit besides.`,
    { retryAfter: 1 },
  );
}

export function tooLarge(limit: number, size?: number): ServeError {
  const got = size === undefined ? 'The request body is larger' : `The request body has ${size} bytes, more`;
  return new ServeError('PAYLOAD_TOO_LARGE', `${got} than the limit of ${limit} bytes; raise max_request_size to accept it.`);
}

/**
 * Collects the body in one buffer. Many tiny chunks cost no more than their bytes.
 * @param budget what all bodies together may take; whoever asks gives back what `counted` was told
 * @throws {ServeError} PAYLOAD_TOO_LARGE over the limit and OVERLOADED over the budget (the rest is read and dropped), CANCELLED when the
 *   client left half-way
 */
export function readBody(
  request: IncomingMessage,
  limit: number,
  budget?: ByteBudget,
  counted?: (bytes: number) => void,
): Promise<Buffer> | Buffer {
  if (!hasBody(request)) return empty;
  const length = request.headers['content-length'];
  const announced = length === undefined ? undefined : Number(length);
  if (announced !== undefined && announced > limit) {
    request.resume();
    throw tooLarge(limit, announced);
  }
  return new Promise<Buffer>((resolve, reject) => {
    let held: Buffer = empty;
    let size = 0;
    let settled = false;
    // The first chunk is kept as it is, most bodies being one; the second makes it a growing buffer.
    let growing = false;
    const onData = (chunk: Buffer) => {
      const needed = size + chunk.length;
      const fits = needed <= limit;
      if (!fits || budget?.take(chunk.length) === false) {
        settled = true;
        held = empty;
        request.off('data', onData);
        request.resume();
        reject(fits ? overloaded(budget!) : tooLarge(limit));
        return;
      }
      counted?.(chunk.length);
      if (size === 0) held = chunk;
      else {
        if (!growing || needed > held.length) {
          // An announced length is taken at once: pages that are never written cost nothing, and a large body is never moved.
          const wanted = Math.max(needed, firstCapacity, growing ? held.length * 2 : (announced ?? 0));
          const next = Buffer.allocUnsafeSlow(Math.min(wanted, limit));
          held.copy(next, 0, 0, size);
          held = next;
          growing = true;
        }
        chunk.copy(held, size);
      }
      size = needed;
    };
    request.on('data', onData);
    request.once('end', () => {
      if (!settled) resolve(growing ? held.subarray(0, size) : held);
      settled = true;
    });
    const gone = () => {
      if (!settled) reject(new ServeError('CANCELLED', 'The client left before its request was complete.'));
      settled = true;
      held = empty;
    };
    request.once('error', gone);
    request.once('close', gone);
  });
}
