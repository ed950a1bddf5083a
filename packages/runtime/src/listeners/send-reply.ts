import { once } from 'node:events';
import { ServeError } from '../domain/errors.js';
import type { PredictReply } from '../domain/request.js';
import { acceptsGzip, compress, compressible } from './compression.js';
import type { Exchange } from './exchange.js';
import { checkStatus, mergeHeaders } from './reply-headers.js';

const bodyless = (status: number) => status === 204 || status === 304;

/** Writes the answer of a model. Throws as long as nothing has been sent, so that the caller can answer with an error. */
export async function sendReply(exchange: Exchange, reply: PredictReply): Promise<void> {
  if (exchange.gone) {
    if (!Buffer.isBuffer(reply.body)) await reply.body[Symbol.asyncIterator]().return?.();
    return;
  }
  exchange.stages = reply.stages;
  if (Buffer.isBuffer(reply.body)) await sendWhole(exchange, reply, reply.body);
  else await sendStream(exchange, reply, reply.body);
}

async function sendWhole(exchange: Exchange, reply: PredictReply, whole: Buffer): Promise<void> {
  const status = checkStatus(reply.status);
  const ours = exchange.common();
  let body = whole;
  if (compressible(body.length, reply.headers)) {
    ours.push('Vary', 'Accept-Encoding');
    if (acceptsGzip(exchange.request)) {
      body = await compress(body);
      ours.push('Content-Encoding', 'gzip');
      if (exchange.gone) return;
    }
  }
  ours.push('Server-Timing', exchange.timing());
  if (!bodyless(status)) ours.push('content-length', String(body.length));
  const headers = mergeHeaders(reply.headers, ours);
  exchange.response.writeHead(status, headers);
  exchange.responseBytes = body.length;
  exchange.response.end(body);
  if (exchange.response.writableLength > 0) exchange.limitWriting();
}

async function sendStream(exchange: Exchange, reply: PredictReply, stream: AsyncIterable<Buffer>): Promise<void> {
  const { response, request } = exchange;
  const iterator = stream[Symbol.asyncIterator]();
  let left = false;
  const leave = () => {
    if (left) return;
    left = true;
    // The stream's own failure to stop is nobody's answer any more.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
  };
  exchange.onStreamGone = leave;
  try {
    const status = checkStatus(reply.status);
    // The head waits for the first chunk: until then an error still gets its own status.
    let step = await iterator.next();
    if (exchange.gone) return;
    const trailers = request.httpVersionMinor >= 1 && request.method !== 'HEAD' && !bodyless(status);
    const ours = exchange.common();
    if (trailers) ours.push('Trailer', 'Server-Timing');
    response.writeHead(status, mergeHeaders(reply.headers, ours));
    while (!step.done) {
      if (step.value.length > 0) {
        exchange.responseBytes += step.value.length;
        if (!response.write(step.value)) await writable(exchange);
      }
      if (exchange.gone) return;
      step = await iterator.next();
    }
    left = true;
    if (exchange.gone) return;
    exchange.stages = reply.stages;
    if (trailers) response.addTrailers([['Server-Timing', exchange.timing()]]);
    response.end();
  } catch (error) {
    if (!exchange.gone) throw error;
  } finally {
    leave();
  }
}

/** Waits until the client has taken what was written, or has left. */
async function writable(exchange: Exchange): Promise<void> {
  const { response } = exchange;
  if (response.destroyed || !response.writableNeedDrain) return;
  const stop = new AbortController();
  exchange.limitWriting();
  try {
    await Promise.race([once(response, 'drain', { signal: stop.signal }), once(response, 'close', { signal: stop.signal })]);
  } catch (error) {
    throw new ServeError('CANCELLED', 'The client left while its answer was being sent.', { cause: error });
  } finally {
    stop.abort();
    // What takes long from here on is the model.
    if (!response.destroyed) response.setTimeout(0);
  }
}
