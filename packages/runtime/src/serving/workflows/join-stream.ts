import { ServeError } from '../../domain/errors.js';
import { type Client, monotonicNow } from '../../domain/request.js';

export interface JoinOptions {
  /** Bytes. */
  readonly limit: number;
  /** Nanoseconds of the monotonic clock. */
  readonly deadline: number | undefined;
  readonly client: Client;
}

/**
 * The whole of what a node streams. The worker hears of it at once when nobody wants the rest.
 * @throws {ServeError} CANCELLED, DEADLINE_EXCEEDED, RESPONSE_TOO_LARGE, and what the stream fails with
 */
export async function joinStream(stream: AsyncIterable<Buffer>, { limit, deadline, client }: JoinOptions): Promise<Buffer> {
  const iterator = stream[Symbol.asyncIterator]();
  let failure: ServeError | undefined;
  const leave = (why: ServeError) => {
    failure ??= why;
    // The stream's own failure to stop is nobody's answer any more.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
  };
  const gone = () => leave(new ServeError('CANCELLED', 'Nobody waits for its stream any more.'));
  const left = deadline === undefined || deadline === Infinity ? undefined : Math.max(0, (deadline - monotonicNow()) / 1e6);
  const timer = left && setTimeout(() => leave(new ServeError('DEADLINE_EXCEEDED', 'Its stream did not end in time.')), left);
  client.onGone = gone;
  if (client.gone) gone();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) {
      bytes += step.value.length;
      if (bytes > limit)
        leave(new ServeError('RESPONSE_TOO_LARGE', `It streams more than ${limit} bytes, the limit set by max_response_size.`));
      if (failure !== undefined) break;
      chunks.push(step.value);
    }
  } finally {
    clearTimeout(timer);
    client.onGone = undefined;
  }
  if (failure !== undefined) throw failure;
  return Buffer.concat(chunks, bytes);
}
