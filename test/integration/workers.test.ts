import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeBigModel } from '../fixtures/big-model.mjs';
import { type Answer, get, messageOf, metric, post, send } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const one = { minWorkers: 1, maxWorkers: 1 };
const iterations = (value: number) => ({ inputs: [{ name: 'iterations', datatype: 'INT64', shape: [1, 1], data: [value] }] });

let server: TestServer;
const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);

beforeAll(async () => {
  server = await startServer({
    models: {
      queue5: { handler: 'whole-batch', config: { ...one, jobQueueSize: 5 } },
      slow: { model: 'slow.onnx', config: one },
      json: { handler: 'json-size', config: one },
      pair: { handler: 'whole-batch', config: { minWorkers: 2, maxWorkers: 2 } },
    },
    config: { max_request_size: 40_000_000 },
  });
});
afterAll(() => server.stop());

it('answers at once with 503, the queue and its size when the queue is full', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, (_, value) => predict('queue5', { value, ms: 1000 })));
  const served = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 503);
  expect(served.length + refused.length).toBe(50);
  // Five wait, one runs, and one may have been prefetched.
  expect(served.length).toBeGreaterThanOrEqual(6);
  expect(served.length).toBeLessThanOrEqual(7);
  for (const answer of refused) {
    expect(messageOf(answer)).toContain('queue');
    expect(messageOf(answer)).toContain('5');
    expect(messageOf(answer)).toContain('queue5');
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  }
  const counted = await metric(server.metrics, 'onnxserve_requests_total', { model: 'queue5', reason: 'queue-full' });
  expect(counted).toBe(refused.length);
});

it('runs again, on a replacement, what a killed worker was running', async () => {
  const before = (await server.untilReady('slow')).workers[0]!;
  const answers = [predict('slow', iterations(4000)), predict('slow', iterations(3000))];
  await until(
    async () => ((await metric(server.metrics, 'onnxserve_in_flight', { model: 'slow' })) > 0 ? true : undefined),
    'a run in flight',
  );
  process.kill(before.pid, 'SIGKILL');
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
  expect(await metric(server.metrics, 'onnxserve_batch_release_total', { model: 'slow', reason: 'rerun' })).toBeGreaterThan(0);
  const after = (await server.untilReady('slow')).workers[0]!;
  expect(after.pid).not.toBe(before.pid);
  expect(after.restarts).toBe(before.restarts + 1);
});

it('counts what was refused before it reached a queue', async () => {
  const counted = async () => await metric(server.metrics, 'onnxserve_requests_total', { model: '', reason: 'not-found' });
  const before = await counted().catch(() => 0);
  expect((await predict('nobody', {})).status).toBe(404);
  expect(await counted()).toBe(before + 1);
  const large = await predict('queue5', { padding: 'x'.repeat(41_000_000) });
  expect(large.status).toBe(413);
  expect(await metric(server.metrics, 'onnxserve_requests_total', { model: 'queue5', reason: 'input-too-large' })).toBe(1);
});

describe('the front stays awake', () => {
  /** Pings one after the other until the work is done. @returns answers that came before its end */
  async function pingsDuring(work: Promise<unknown>): Promise<number> {
    const state = { ended: false };
    const end = () => {
      state.ended = true;
    };
    work.then(end, end);
    let before = 0;
    while (!state.ended) {
      const ping = await get(`${server.inference}/ping`);
      expect(ping.status).toBe(200);
      if (!state.ended) before++;
    }
    return before;
  }

  it('while a model computes', async () => {
    const work = predict('slow', iterations(8000));
    // A front that computed itself would answer none of them in time.
    expect(await pingsDuring(work)).toBeGreaterThanOrEqual(20);
    expect((await work).status).toBe(200);
  });

  it('while a model of 90 MB is loaded', async () => {
    const big = join(server.store, 'big.onnx');
    writeBigModel(big);
    const work = send('POST', `${server.management}/models?url=big.onnx&model_name=big&initial_workers=1&synchronous=true`);
    expect(await pingsDuring(work)).toBeGreaterThanOrEqual(5);
    expect((await work).status).toBe(200);
  });

  it('while a JSON body of 20 MB arrives', async () => {
    const numbers = `[${'1.25,'.repeat(4_000_000)}1]`;
    const work = post(`${server.inference}/predictions/json`, numbers, { 'content-type': 'application/json' });
    expect(await pingsDuring(work)).toBeGreaterThanOrEqual(5);
    expect((await work).json).toEqual({ length: 4_000_001 });
  });
});

describe('a model that cannot load', () => {
  const reason = 'the vocabulary of 1234 words is missing';

  it('fails a synchronous registration with the reason', async () => {
    await server.addModel('broken', { handler: 'load-fails', config: { maxRetryTimeoutInSec: 300 } });
    const answer = await send('POST', `${server.management}/models?url=broken.mar&initial_workers=1&synchronous=true`);
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(messageOf(answer)).toContain(reason);
  });

  it('shows the reason in describe after an asynchronous one, and is given up after its window', async () => {
    await server.addModel('hopeless', { handler: 'load-fails', config: { maxRetryTimeoutInSec: 2 } });
    const answer = await send('POST', `${server.management}/models?url=hopeless.mar&initial_workers=1&synchronous=false`);
    expect(answer.status).toBe(202);
    const given = await until(async () => {
      const { workers } = await server.describe('hopeless');
      return workers.find(({ state }) => state === 'gave-up');
    }, 'the worker is given up');
    expect(given.lastError).toContain(reason);
    expect(given.status).toBe('UNLOADING');
    // Growing waits: within two seconds there is room for few tries.
    expect(given.restarts).toBeLessThanOrEqual(3);
    const lines = server
      .logs()
      .split('\n')
      .filter((line) => line.includes(reason));
    expect(lines.length).toBeLessThan(50);
    expect((await send('DELETE', `${server.management}/models/hopeless`)).status).toBe(200);
  });
});

describe('a worker that dies with a request in it', () => {
  const pidOf = (answer: Answer) => (answer.json as { pid: number }).pid;
  const pids = async () => (await server.describe('pair')).workers.map(({ pid }) => pid);

  /** Two workers with other processes than before, at least one of them new. */
  async function untilReplaced(dead: number): Promise<void> {
    await until(async () => {
      const { workers } = await server.describe('pair');
      const ready = workers.filter(({ status, pid }) => status === 'READY' && pid !== dead);
      return ready.length === 2 ? true : undefined;
    }, `worker ${dead} is replaced`);
  }

  it('SIGKILL: the caller gets 5xx, the others are served, the worker is replaced', async () => {
    const before = await pids();
    const restarts = await metric(server.metrics, 'onnxserve_worker_restarts_total', { model: 'pair' });
    const long = predict('pair', { value: 1, ms: 60_000 });
    const running = async () =>
      (await metric(server.metrics, 'onnxserve_in_flight', { model: 'pair' })) === 1 ? true : undefined;
    await until(running, 'the long request is with a worker');
    const busy = await until(async () => {
      // One worker is busy for a minute, so every answer comes from the other one.
      const free = pidOf(await predict('pair', { value: 0 }));
      const again = pidOf(await predict('pair', { value: 0 }));
      return free === again ? before.find((pid) => pid !== free) : undefined;
    }, 'one worker is busy');
    process.kill(busy, 'SIGKILL');
    const failed = await long;
    expect(failed.status).toBeGreaterThanOrEqual(500);
    expect(failed.json).toMatchObject({ code: failed.status });
    expect((await predict('pair', { value: 2 })).status).toBe(200);
    await untilReplaced(busy);
    expect(await metric(server.metrics, 'onnxserve_worker_restarts_total', { model: 'pair' })).toBe(restarts + 1);
  });

  it.each(['exit', 'abort'])('%s in the handler: queued requests survive', async (mode) => {
    const dying = predict('pair', { value: 1, mode, ms: 300 });
    const queued = Array.from({ length: 20 }, (_, value) => predict('pair', { value, ms: 20 }));
    expect((await dying).status).toBeGreaterThanOrEqual(500);
    const answers = await Promise.all(queued);
    expect(answers.map(({ status }) => status)).toEqual(queued.map(() => 200));
    await until(
      async () => ((await server.describe('pair')).workers.every(({ status }) => status === 'READY') ? true : undefined),
      'both are back',
    );
  });
});
