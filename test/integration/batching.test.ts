import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, get, messageOf, metric, post } from '../helpers/client.js';
import { runToEnd, startServer, type TestServer } from '../helpers/server.js';

const minutes = 60_000;
const rows = { handler: 'rows', model: 'identity-fp32.onnx' };
const one = { minWorkers: 1, maxWorkers: 1 };

/** `n` rows that nobody else sends. */
const rowsOf = (seed: number, n: number) => Array.from({ length: n }, (_, i) => [seed, i, seed * 2, -seed]);
const rowsIn = (answer: Answer) => (answer.json as { rows: number[][] }).rows;
const batchIn = (answer: Answer) => (answer.json as { batch: number }).batch;
const pidIn = (answer: Answer) => (answer.json as { pid: number }).pid;
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);

let server: TestServer;
const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);

beforeAll(async () => {
  server = await startServer({
    models: {
      rows: { ...rows, config: { ...one, batchSize: 8, maxBatchDelay: 500 } },
      crowd: { ...rows, config: { ...one, batchSize: 16, maxBatchDelay: 20, jobQueueSize: 400 } },
      full4: { handler: 'whole-batch', config: { ...one, batchSize: 4, maxBatchDelay: 10 * minutes } },
      lone: { handler: 'whole-batch', config: { ...one, batchSize: 4, maxBatchDelay: 300 } },
      single: { handler: 'whole-batch', config: { ...one, batchSize: 1, maxBatchDelay: 10 * minutes } },
      large: { handler: 'whole-batch', config: { ...one, batchSize: 128, maxBatchDelay: 10 * minutes, jobQueueSize: 1000 } },
      fixed: { handler: 'rows', model: 'identity-fp32-batch1.onnx', config: { ...one, batchSize: 4, maxBatchDelay: 200 } },
      sums: { handler: 'sequence-sum', model: 'sequence-sum.onnx', config: { ...one, batchSize: 8, maxBatchDelay: 200 } },
    },
  });
});
afterAll(() => server.stop());

describe('one bad request among seven good ones', () => {
  const bad = [
    { name: 'bytes that are no JSON', body: Buffer.from([0, 255, 1, 254]), statuses: [400] },
    { name: 'rows of the wrong width', body: { rows: [[1, 2, 3]] }, statuses: [400] },
    { name: 'a bug in preprocess', body: { rows: [[1, 2, 3, 4]], fail: 'preprocess' }, statuses: [500, 503] },
    { name: 'a bug in postprocess', body: { rows: [[-999, 0, 0, 0]] }, statuses: [500, 503] },
  ];
  it.each(bad)('$name fails alone', async ({ body, statuses: expected }) => {
    const good = Array.from({ length: 7 }, (_, i) => rowsOf(i + 1, 1));
    const alone = await Promise.all(good.map(async (it) => rowsIn(await predict('rows', { rows: it }))));
    const [failed, ...answers] = await Promise.all([predict('rows', body), ...good.map((it) => predict('rows', { rows: it }))]);
    expect(statuses(answers)).toEqual(good.map(() => 200));
    expect(answers.map(rowsIn)).toEqual(alone);
    expect(expected).toContain(failed.status);
    expect(failed.json).toMatchObject({ code: failed.status, message: expect.any(String) as string });
  });
});

describe('input whose shape cannot be computed', () => {
  it.each([
    ['null', 'null'],
    ['an object where a list is wanted', { rows: {} }],
    ['a row that is no list', { rows: [7] }],
    ['no rows', {}],
  ])('%s is refused and the next five are served', async (_, body) => {
    const refused = await predict('rows', body);
    expect(refused.status).toBe(400);
    const next = await Promise.all(Array.from({ length: 5 }, (_, i) => predict('rows', { rows: rowsOf(i, 1) })));
    expect(statuses(next)).toEqual([200, 200, 200, 200, 200]);
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
  });
});

describe('batch settings', () => {
  it('come from the models property of config.properties', async () => {
    const settings = { defaultVersion: true, marName: 'five.mar', minWorkers: 1, maxWorkers: 3, batchSize: 5 };
    const models = { five: { '1.0': { ...settings, maxBatchDelay: 10 * minutes, responseTimeout: 77 } } };
    const own = await startServer({
      models: { five: { handler: 'whole-batch' } },
      config: { models: JSON.stringify(models) },
    });
    try {
      const described = await own.describe('five');
      const expected = { batchSize: 5, maxBatchDelay: 10 * minutes, responseTimeout: 77, minWorkers: 1, maxWorkers: 3 };
      expect(described).toMatchObject(expected);
      const answers = await Promise.all(
        Array.from({ length: 5 }, (_, value) => post(`${own.inference}/predictions/five`, { value })),
      );
      expect(answers.map(batchIn)).toEqual([5, 5, 5, 5, 5]);
      expect(await metric(own.metrics, 'onnxserve_batch_size_sum', { model: 'five' })).toBe(5);
      expect(await metric(own.metrics, 'onnxserve_batch_size_count', { model: 'five' })).toBe(1);
    } finally {
      await own.stop();
    }
  });

  it.each([0, -1, 'five'])('a batchSize of %s stops the start with the name of the key', async (batchSize) => {
    const models = { five: { '1.0': { marName: 'five.mar', minWorkers: 1, maxWorkers: 1, batchSize } } };
    const ended = await runToEnd({ models: { five: { handler: 'whole-batch' } }, config: { models: JSON.stringify(models) } });
    expect(ended.code).not.toBe(0);
    expect(ended.output).toContain('batchSize');
  });
});

describe('release of a batch', () => {
  it('does not wait once the batch is full', async () => {
    // With a delay of ten minutes the four answers can only come because they are four.
    const answers = await Promise.all([1, 2, 3, 4].map((value) => predict('full4', { value })));
    expect(answers.map(batchIn)).toEqual([4, 4, 4, 4]);
    expect(await metric(server.metrics, 'onnxserve_batch_release_total', { model: 'full4', reason: 'full' })).toBe(1);
  });

  it('waits maxBatchDelay for a lone request', async () => {
    const started = performance.now();
    const answer = await predict('lone', { value: 1 });
    // Only the lower bound: how much later it comes depends on the machine.
    expect(performance.now() - started).toBeGreaterThanOrEqual(295);
    expect(batchIn(answer)).toBe(1);
    expect(await metric(server.metrics, 'onnxserve_batch_release_total', { model: 'lone', reason: 'delay' })).toBe(1);
  });

  it('serves the fifth of five after the delay', async () => {
    const answers = await Promise.all([1, 2, 3, 4, 5].map((value) => predict('lone', { value })));
    expect(answers.map(batchIn).sort((a, b) => a - b)).toEqual([1, 4, 4, 4, 4]);
  });

  it('never waits with batchSize 1', async () => {
    const answer = await predict('single', { value: 1 });
    expect(answer).toMatchObject({ status: 200, json: { value: 1, batch: 1 } });
  });
});

it('gives 200 callers with one to four rows each their own rows in order', async () => {
  const sent = Array.from({ length: 200 }, (_, i) => rowsOf(i + 1, 1 + (i % 4)));
  const answers = await Promise.all(sent.map((it) => predict('crowd', { rows: it })));
  expect(statuses(answers)).toEqual(sent.map(() => 200));
  expect(answers.map(rowsIn)).toEqual(sent);
  // Otherwise nothing was batched and the test shows nothing.
  expect(await metric(server.metrics, 'onnxserve_batch_size_count', { model: 'crowd' })).toBeLessThan(200);
});

describe('a handler that returns the wrong number of results', () => {
  it.each([
    ['short', '3'],
    ['long', '5'],
    ['text', 'string'],
    ['nothing', 'undefined'],
  ])('%s: all callers learn what was expected, the worker stays', async (mode, got) => {
    const before = pidIn((await Promise.all([1, 2, 3, 4].map((value) => predict('full4', { value }))))[0]!);
    const answers = await Promise.all([1, 2, 3, 4].map((value) => predict('full4', { value, mode })));
    for (const answer of answers) {
      expect(answer.status).toBeGreaterThanOrEqual(500);
      expect(messageOf(answer)).toContain('full4');
      expect(messageOf(answer)).toContain('4');
      expect(messageOf(answer)).toContain(got);
    }
    const next = await Promise.all([1, 2, 3, 4].map((value) => predict('full4', { value })));
    expect(next.map(({ json }) => (json as { value: number }).value)).toEqual([1, 2, 3, 4]);
    expect(pidIn(next[0]!)).toBe(before);
  });
});

it('runs a model with a fixed batch axis one by one', async () => {
  const sent = [1, 2, 3, 4].map((seed) => rowsOf(seed, 1));
  const answers = await Promise.all(sent.map((it) => predict('fixed', { rows: it })));
  expect(statuses(answers)).toEqual([200, 200, 200, 200]);
  expect(answers.map(rowsIn)).toEqual(sent);
});

describe('requests of different shapes', () => {
  const sequence = (length: number, seed: number) => Array.from({ length }, (_, i) => ((seed + i) % 7) + 1);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

  it('are grouped, and each gets what it gets alone', async () => {
    const sent = [7, 106, 128, 7].map((length, seed) => sequence(length, seed));
    const answers = await Promise.all(sent.map((values) => predict('sums', [values])));
    expect(statuses(answers)).toEqual([200, 200, 200, 200]);
    expect(answers.map(({ json }) => json)).toEqual(sent.map((values) => [sum(values)]));
  });

  it('leave nothing behind when larger and smaller batches alternate', async () => {
    for (const count of [10, 2, 10, 2, 10]) {
      const sent = Array.from({ length: count }, (_, i) => sequence(9, i + count));
      const answer = await predict('sums', sent);
      expect(answer.json).toEqual(sent.map(sum));
    }
  });
});

it('fills batches of 128 exactly', async () => {
  const answers = await Promise.all(Array.from({ length: 256 }, (_, value) => predict('large', { value })));
  expect(answers.map(batchIn)).toEqual(answers.map(() => 128));
});
