import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { get, messageOf, post } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

/** Waits as long as it is told; `hold` waits until its client has left. */
const waits = `
export default {
  async preprocess(request) {
    const text = request.text();
    if (text === 'hold') {
      console.log('holds');
      await new Promise((resolve) => request.signal.addEventListener('abort', resolve));
      console.log('lets go');
    }
    return text;
  },
  postprocess: (text) => (text === 'big' ? Buffer.alloc(6_000_000, 'x') : text),
};`;
const one = { minWorkers: 1, maxWorkers: 1 };

let server: TestServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});
const count = (text: string) => (server?.logs().split(text).length ?? 1) - 1;
const seen = (text: string, times = 1) =>
  until(async () => (count(text) >= times ? true : undefined), `"${text}" ${times} times`);

describe('the time that a client waits', () => {
  it.each([
    ['x-request-timeout-ms', '150'],
    ['x-envoy-expected-rq-timeout-ms', '150'],
  ])('%s ends the request with 504 and frees its worker', async (name, value) => {
    server = await startServer({ models: { waits: { handlerSource: waits, config: one } } });
    const answer = await post(`${server.inference}/predictions/waits`, 'hold', { [name]: value });
    expect(answer.status).toBe(504);
    expect(answer.json).toMatchObject({ type: 'DeadlineExceededException', reason: 'queue-timeout' });
    await seen('lets go');
    expect((await post(`${server.inference}/predictions/waits`, 'next', { [name]: '60000' })).text).toBe('next');
  });

  it('counts in the queue: what has expired there is answered and never runs', async () => {
    const config = { ...one, batchSize: 1 };
    server = await startServer({ models: { waits: { handlerSource: waits, config } } });
    const { inference } = server;
    const url = `${inference}/predictions/waits`;
    const stop = new AbortController();
    // Two held by the worker, one running and one prefetched.
    const held = [1, 2].map(() => fetch(url, { method: 'POST', body: 'hold', signal: stop.signal }).catch(() => undefined));
    await seen('holds');
    const waiting = await Promise.all([1, 2, 3].map(() => post(url, 'hold', { 'x-request-timeout-ms': '200' })));
    expect(waiting.map(({ status }) => status)).toEqual([504, 504, 504]);
    for (const answer of waiting) expect(messageOf(answer)).toMatch(/expired in the queue after \d+ ms/);
    stop.abort();
    await Promise.all(held);
    expect((await post(url, 'after')).text).toBe('after');
    expect(count('holds')).toBeLessThanOrEqual(2);
  });

  it.each(['0', '-1', 'soon', '1.5', '99999999999'])('is refused when it is %s', async (value) => {
    server ??= await startServer({ models: { waits: { handlerSource: waits, config: one } } });
    const answer = await post(`${server.inference}/predictions/waits`, 'x', { 'x-request-timeout-ms': value });
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain('x-request-timeout-ms');
    const gateway = await post(`${server.inference}/predictions/waits`, 'x', { 'x-envoy-expected-rq-timeout-ms': value });
    expect(gateway.status).toBe(200);
  });
});

describe('a full queue', () => {
  it('is 429 when that is asked for, with Retry-After and the reason', async () => {
    const config = { ...one, jobQueueSize: 1 };
    server = await startServer({ models: { waits: { handlerSource: waits, config } }, config: { queue_full_status: 429 } });
    const { inference } = server;
    const stop = new AbortController();
    const held = Array.from({ length: 8 }, () =>
      fetch(`${inference}/predictions/waits`, { method: 'POST', body: 'hold', signal: stop.signal }).catch(() => undefined),
    );
    await seen('holds');
    const answer = await until(async () => {
      const found = await post(`${inference}/predictions/waits`, 'x', { 'x-request-timeout-ms': '50' });
      return found.status === 504 ? undefined : found;
    }, 'the queue is full');
    expect(answer.status).toBe(429);
    expect(answer.json).toMatchObject({ code: 429, type: 'TooManyRequestsException', reason: 'queue-full' });
    expect(answer.headers.get('retry-after')).toBe('1');
    stop.abort();
    await Promise.all(held);
  });

  it('hands out the latest first when the model asks for it', async () => {
    const order = `
const order = [];
export default {
  async preprocess(request) {
    const text = request.text();
    if (text === 'order') return order;
    if (text === 'gate') { console.log('gate'); await new Promise((resolve) => request.signal.addEventListener('abort', resolve)); }
    else order.push(text);
    return text;
  },
  postprocess: (it) => it,
};`;
    const config = { ...one, batchSize: 1, newestFirstUnderLoad: true };
    server = await startServer({ models: { order: { handlerSource: order, config } } });
    const url = `${server.inference}/predictions/order`;
    const stop = new AbortController();
    const gates = [1, 2].map(() => fetch(url, { method: 'POST', body: 'gate', signal: stop.signal }).catch(() => undefined));
    await seen('gate');
    const waiting: Array<Promise<unknown>> = [];
    for (let i = 0; i < 6; i++) {
      waiting.push(post(url, String(i)));
      const { management } = server;
      await until(async () => {
        const [model] = (await (await fetch(`${management}/models/order`)).json()) as Array<{
          jobQueueStatus: { pendingRequests: number };
        }>;
        return (model?.jobQueueStatus.pendingRequests ?? 0) >= i ? true : undefined;
      }, `${i} requests wait`);
    }
    stop.abort();
    await Promise.all([...gates, ...waiting]);
    const served = (await post(url, 'order')).json as string[];
    expect(served).toHaveLength(6);
    expect(served.indexOf('5')).toBeLessThan(served.indexOf('1'));
  });
});

describe('memory for bodies', () => {
  it('is bounded over all requests; one more is refused, and what ends gives it back', async () => {
    server = await startServer({
      models: { waits: { handlerSource: waits, config: one } },
      config: { max_body_memory: 3_000_000, max_request_size: 2_000_000 },
    });
    const { port } = new URL(server.inference);
    const half = (bytes: number) => {
      const socket = connect(Number(port), '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write(`POST /predictions/waits HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n`);
      socket.write(Buffer.alloc(bytes, 'a'));
      return socket;
    };
    const sockets = [half(1_500_000), half(1_400_000)];
    const { inference } = server;
    // Each turn of the server reads a piece of what has arrived.
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.write('a', resolve))));
    for (let turn = 0; turn < 200; turn++) await get(`${inference}/ping`);
    const refused = await post(`${inference}/predictions/waits`, 'b'.repeat(200_000));
    expect(refused).toMatchObject({ status: 503, json: { reason: 'memory-full' } });
    expect(messageOf(refused)).toContain('max_body_memory');
    expect(refused.headers.get('retry-after')).toBe('1');
    for (const socket of sockets) socket.destroy();
    await until(
      async () => ((await post(`${inference}/predictions/waits`, 'b'.repeat(200_000))).status === 200 ? true : undefined),
      'it is given back',
    );
    for (let i = 0; i < 40; i++) expect((await post(`${inference}/predictions/waits`, 'b'.repeat(200_000))).status).toBe(200);
  });
});

it('a client that takes nothing of its answer is cut off', async () => {
  server = await startServer({
    models: { waits: { handlerSource: waits, config: one } },
    config: { client_write_timeout: 1, max_response_size: 10_000_000 },
  });
  const { port } = new URL(server.inference);
  const socket = connect(Number(port), '127.0.0.1');
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => undefined);
  socket.write('POST /predictions/waits HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nbig');
  socket.pause();
  // The line of the access log is written when the exchange has ended: nobody has read a byte by then.
  await seen('POST /predictions/waits');
  socket.resume();
  await ended;
  expect((await post(`${server.inference}/predictions/waits`, 'x')).text).toBe('x');
});
