import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageOf, metric, post } from '../helpers/client.js';
import { type Gates, startGates } from '../helpers/gates.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const handler = 'steps';
const config = { minWorkers: 1, maxWorkers: 1, batchSize: 3, continuousBatching: true };

let server: TestServer;
let gates: Gates;
const count = (model: string, order: object) => post(`${server.inference}/predictions/${model}`, order);
const gate = (name: string) => `${gates.url}/${name}`;
const inFlight = (model: string, wanted: number) =>
  until(
    async () => ((await metric(server.metrics, 'onnxserve_in_flight', { model })) === wanted ? true : undefined),
    `${wanted} requests of ${model} are at its worker`,
  );
/** Ids of requests whose jobs were released. */
async function releasedOf(model: string): Promise<string[]> {
  const response = await fetch(`${server.management}/models/${model}?customized=true`);
  const [described] = (await response.json()) as [{ customizedMetadata: { released: string[] } }];
  return described.customizedMetadata.released;
}
/** A request whose chunks are read one by one. */
async function open(model: string, order: object, id = 'r') {
  const leaves = new AbortController();
  const response = await fetch(`${server.inference}/predictions/${model}`, {
    method: 'POST',
    body: JSON.stringify(order),
    headers: { 'x-request-id': id },
    signal: leaves.signal,
  });
  const reader = response.body!.getReader();
  const chunk = async () => Buffer.from((await reader.read()).value ?? []).toString();
  const rest = async () => {
    let text = '';
    for (let step = await reader.read(); !step.done; step = await reader.read()) text += Buffer.from(step.value).toString();
    return text;
  };
  return { response, chunk, rest, leave: () => leaves.abort() };
}

beforeAll(async () => {
  gates = await startGates();
  server = await startServer({
    models: {
      count: { handler, config },
      joins: { handler, config },
      leaves: { handler, config },
      fails: { handler, config },
      dies: { handler, config },
      hangs: { handler, config: { ...config, responseTimeout: 1 } },
      delays: { handler, config: { ...config, maxBatchDelay: 600_000 } },
      ordinary: { handler: 'whole-batch', config: { ...config, batchSize: 2, maxBatchDelay: 100 } },
      streams: { handler: 'grpc', config: { ...config, batchSize: 2, maxBatchDelay: 100 } },
    },
  });
});
afterAll(async () => {
  gates.openAll();
  await server.stop();
  gates.close();
});

it('streams a chunk for each step, with what the handler set for the answer', async () => {
  const answer = await count('count', { steps: 3 });
  expect([answer.status, answer.text]).toEqual([200, '1/1 2/1 3/1']);
  expect(answer.headers.get('x-counts')).toBe('yes');
  const quiet = await count('count', { steps: 3, quiet: true });
  expect([quiet.status, quiet.text, quiet.headers.get('content-length')]).toEqual([200, '3/1', '3']);
  expect(await server.describe('count')).toMatchObject({ continuousBatching: true });
});

it('a request joins the running batch between two steps, and one that is done makes room for the next', async () => {
  const running = await (async () => {
    const opened = open('joins', { steps: 4, gate: gate('joins') });
    gates.open('joins');
    return await opened;
  })();
  expect(await running.chunk()).toBe('1/1 ');
  await gates.reached('joins');
  const joined = [count('joins', { steps: 2 }), count('joins', { steps: 2 })];
  await inFlight('joins', 3);
  // No place is left: this one waits in the queue.
  const waits = count('joins', { steps: 1 });
  await until(
    async () => ((await metric(server.metrics, 'onnxserve_queue_depth', { model: 'joins' })) === 1 ? true : undefined),
    'the fourth waits',
  );
  gates.open('joins');
  expect(await running.chunk()).toBe('2/1 ');
  gates.open('joins');
  expect(await running.chunk()).toBe('3/3 ');
  gates.open('joins');
  expect(await running.rest()).toBe('4/3');
  expect((await Promise.all(joined)).map(({ text }) => text)).toEqual(['1/3 2/3', '1/3 2/3']);
  expect((await waits).text).toBe('1/1');
  expect(await metric(server.metrics, 'onnxserve_batch_release_total', { model: 'joins', reason: 'join' })).toBeGreaterThan(0);
  // Steps: 1, 1, 3, 3 and 1 rows.
  expect(await metric(server.metrics, 'onnxserve_batch_rows_sum', { model: 'joins' })).toBe(9);
  expect(await metric(server.metrics, 'onnxserve_batch_rows_count', { model: 'joins' })).toBe(5);
});

it('a client that leaves leaves the batch at the next step, and its job is released', async () => {
  gates.open('leaves');
  const stream = await open('leaves', { steps: 99, gate: gate('leaves') }, 'gone');
  expect(await stream.chunk()).toBe('1/1 ');
  await gates.reached('leaves');
  const stays = count('leaves', { steps: 2 });
  await inFlight('leaves', 2);
  stream.leave();
  await until(
    async () => ((await metric(server.metrics, 'onnxserve_in_flight', { model: 'leaves' })) === 1 ? true : undefined),
    'the server knows that the client has left',
  );
  gates.open('leaves');
  expect((await stays).text).toBe('1/1 2/1');
  expect(await releasedOf('leaves')).toContain('gone');
  await inFlight('leaves', 0);
});

it('the first batch waits for maxBatchDelay or until it is full; who joins later does not wait', async () => {
  const first = [1, 2, 3].map(() => count('delays', { steps: 2, gate: gate('delays') }));
  await gates.reached('delays');
  for (let step = 0; step < 6; step++) gates.open('delays');
  expect((await Promise.all(first)).map(({ text }) => text)).toEqual(['1/3 2/3', '1/3 2/3', '1/3 2/3']);
});

describe('what goes wrong', () => {
  it('fails alone when the handler says so, before or after the first chunk', async () => {
    const [early, good] = await Promise.all([
      count('fails', { steps: 9, fail: { at: 1, how: 'alone' } }),
      count('fails', { steps: 3 }),
    ]);
    expect([early.status, messageOf(early)]).toEqual([422, 'told to fail']);
    expect(good.text).toMatch(/^1\/\d 2\/\d 3\/\d$/);
    // A stream that breaks must not look complete.
    await expect(count('fails', { steps: 9, fail: { at: 3, how: 'alone' } })).rejects.toThrow();
    expect((await count('fails', { steps: 1 })).text).toBe('1/1');
  });

  it('a step that throws ends its batch, and the worker goes on', async () => {
    const pid = (await server.describe('fails')).workers[0]!.pid;
    const answer = await count('fails', { steps: 9, fail: { at: 1, how: 'all' } });
    expect([answer.status, (answer.json as { reason: string }).reason]).toEqual([500, 'handler-error']);
    expect((await count('fails', { steps: 2 })).text).toBe('1/1 2/1');
    expect((await server.describe('fails')).workers[0]!.pid).toBe(pid);
  });

  it('the death of the worker breaks streams; what has streamed nothing runs again, alone', async () => {
    const stream = open('dies', { steps: 99, gate: gate('dies') });
    gates.open('dies');
    const opened = await stream;
    expect(await opened.chunk()).toBe('1/1 ');
    await gates.reached('dies');
    const quiet = count('dies', { steps: 4, quiet: true });
    await inFlight('dies', 2);
    gates.open('dies');
    // Both are in the step now.
    await gates.reached('dies');
    gates.open('dies');
    await gates.reached('dies');
    process.kill((await server.describe('dies')).workers[0]!.pid, 'SIGKILL');
    await expect(opened.rest()).rejects.toThrow();
    expect(await quiet).toMatchObject({ status: 200, text: '4/1' });
    expect((await count('dies', { steps: 1 })).text).toBe('1/1');
  });

  it('a step that takes longer than responseTimeout costs the worker; steps in time do not, however many', async () => {
    const long = open('hangs', { steps: 3, gate: gate('hangs') });
    gates.open('hangs');
    const opened = await long;
    expect(await opened.chunk()).toBe('1/1 ');
    await expect(opened.rest()).rejects.toThrow();
    expect((await count('hangs', { steps: 2 })).text).toBe('1/1 2/1');
    expect((await server.untilReady('hangs')).workers[0]).toMatchObject({ restarts: 1 });
  });
});

describe('a handler without step()', () => {
  it('is served in ordinary batches, with a warning in describe', async () => {
    const three = await Promise.all([1, 2, 3].map((value) => count('ordinary', { value })));
    expect(three.map(({ json }) => (json as { batch: number }).batch).filter((size) => size === 2)).toHaveLength(2);
    expect((await server.describe('ordinary')).warnings).toContainEqual(expect.stringContaining('continuousBatching'));
  });

  it('may stream, and the next request is served by the same worker', async () => {
    const { pid } = (await server.describe('streams')).workers[0]!;
    const form = (order: object) => {
      const body = new URLSearchParams({ data: JSON.stringify(order) });
      return fetch(`${server.inference}/predictions/streams`, { method: 'POST', body });
    };
    const [one, two] = await Promise.all([form({ do: 'stream', n: 3 }), form({ do: 'sleep', text: 'two' })]);
    expect([await one.text(), await two.text()]).toEqual(['chunk0;chunk1;chunk2;', 'two']);
    expect(await (await form({ do: 'sleep', text: 'three' })).text()).toBe('three');
    expect((await server.describe('streams')).workers[0]!.pid).toBe(pid);
  });
});
