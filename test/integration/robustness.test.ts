import { spawn } from 'node:child_process';
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, get, messageOf, metric, post, send } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

/** A staged handler that goes wrong in the stage that the request names. Everything it is asked is JSON. */
const staged = `
let calls = 0;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const never = () => new Promise(() => {});
const block = () => { for (;;); };
async function act(order) {
  calls++;
  switch (order.act) {
    case 'never': return await never();
    case 'block': return block();
    case 'exit': process.exit(7);
    case 'abort': process.abort();
    case 'sleep': return await sleep(order.ms);
    case 'string': throw 'just text';
    case 'nothing': throw undefined;
    case 'bare': throw Object.create(null);
    case 'loop': { const error = new Error('a'); error.cause = error; throw error; }
    case 'odd': { const error = new Error('b'); error.message = Symbol('b'); throw error; }
    case 'error': throw new Error('broken on purpose');
    case 'later': Promise.reject(new Error('nobody awaits this')); setTimeout(() => Promise.reject('nor this'), 1); return;
    case 'stdout': process.stdout.write('x'.repeat(5_000_000)); console.log('\\nend of it'); return;
    case 'binary': process.stdout.write(Buffer.from([0, 255, 254, 10, 13, 10, 200])); return;
    case 'garbage': (await import('node:fs')).writeSync(3, Buffer.from([5, 0, 0, 0, 255, 255, 255, 255, 1])); return;
    case 'close': (await import('node:fs')).closeSync(3); return;
  }
}
export default {
  async preprocess(request) {
    const order = request.json();
    if (order.stage === 'preprocess') await act(order);
    return order;
  },
  async inference(batch) {
    for (const order of batch) if (order.stage === 'inference') await act(order);
    return batch;
  },
  async postprocess(order) {
    if (order.stage === 'postprocess') await act(order);
    return { value: order.value, pid: process.pid, calls };
  },
};`;
const whole = `
let calls = 0;
export default {
  async handle(batch) {
    calls++;
    const orders = batch.map(({ request }) => request.json());
    for (const { act } of orders) {
      if (act === 'block') for (;;);
      if (act === 'never') await new Promise(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(...orders.map(({ ms }) => ms ?? 0))));
    return orders.map(({ value }) => ({ value, pid: process.pid, calls, batch: batch.length }));
  },
};`;
const streams = `
let open = 0;
async function* endless() { open++; try { for (let i = 0; ; i++) { yield 'tick ' + i + '\\n'; await new Promise((r) => setTimeout(r, 5)); } } finally { open--; } }
async function* stuck() { yield 'first'; await new Promise(() => {}); }
async function* large(megabytes) { for (let i = 0; i < megabytes; i++) yield Buffer.alloc(1024 * 1024, i); }
export default {
  handle: (batch) => batch.map(({ request }) => {
    const { kind, megabytes } = request.json();
    switch (kind) {
      case 'endless': return endless();
      case 'stuck': return stuck();
      case 'large': return large(megabytes);
      default: return { open, pid: process.pid, rss: process.memoryUsage().rss };
    }
  }),
};`;
const tensors = `
import { tensor } from '@onnxserve/handler-kit';
const shared = tensor('FP32', [1, 4], [1, 2, 3, 4]);
export default {
  preprocess(request) {
    const order = request.json();
    if (order.shared) return { input: shared };
    const rows = order.rows;
    return { input: tensor('FP32', [rows.length, 4], rows.flat()) };
  },
  postprocess(outputs, ctx) {
    const out = outputs.output ?? Object.values(outputs)[0];
    const rows = Array.from({ length: out.shape[0] }, (_, i) => Array.from(out.data.slice(i * 4, i * 4 + 4)));
    out.data.fill(-1);
    return { rows };
  },
};`;

const one = { minWorkers: 1, maxWorkers: 1 };
let server: TestServer;
const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);
const pidOf = (answer: Answer) => (answer.json as { pid: number }).pid;
const valueOf = (answer: Answer) => (answer.json as { value: number }).value;
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);
const values = (count: number) => Array.from({ length: count }, (_, value) => value);
const inFlight = (model: string, count: number) =>
  until(
    async () => ((await metric(server.metrics, 'onnxserve_in_flight', { model })) === count ? true : undefined),
    `${count} requests of ${model} are with workers`,
  );

beforeAll(async () => {
  server = await startServer({
    models: {
      staged: { handlerSource: staged, config: { ...one, batchSize: 4, responseTimeout: 1, jobQueueSize: 1000 } },
      whole: { handlerSource: whole, config: { ...one, batchSize: 1, responseTimeout: 1 } },
      calm: { handlerSource: whole, config: { ...one, batchSize: 4 } },
      late: { handlerSource: whole, config: { ...one, batchSize: 1, clientTimeoutInMills: 300 } },
      streams: { handlerSource: streams, config: { ...one, responseTimeout: 2 } },
      tensors: { handlerSource: tensors, model: 'identity-fp32.onnx', config: { ...one, batchSize: 8 } },
    },
  });
});
afterAll(() => server.stop());

describe('a handler that hangs fails its own request only', () => {
  it.each([
    ['preprocess', 'never'],
    ['preprocess', 'block'],
    ['inference', 'never'],
    ['inference', 'block'],
    ['postprocess', 'never'],
    ['postprocess', 'block'],
  ])('%s: %s', async (stage, act) => {
    await server.untilReady('staged');
    const bad = predict('staged', { stage, act });
    await inFlight('staged', 1);
    const good = await Promise.all(values(6).map((value) => predict('staged', { value })));
    expect((await bad).status).toBeGreaterThanOrEqual(500);
    expect(messageOf(await bad)).toMatch(/responseTimeout/);
    expect(statuses(good)).toEqual(values(6).map(() => 200));
    expect(good.map(valueOf)).toEqual(values(6));
  });

  it.each(['never', 'block'])('handle: %s', async (act) => {
    await server.untilReady('whole');
    const bad = predict('whole', { act });
    await inFlight('whole', 1);
    const good = await Promise.all(values(5).map((value) => predict('whole', { value })));
    expect((await bad).status).toBeGreaterThanOrEqual(500);
    expect(statuses(good)).toEqual(values(5).map(() => 200));
  });

  it('a batch mate is served although the hanging one came with it', async () => {
    const answers = await Promise.all([
      predict('staged', { value: 1 }),
      predict('staged', { stage: 'preprocess', act: 'block' }),
    ]);
    expect(answers[0].status).toBe(200);
    expect(answers[1].status).toBeGreaterThanOrEqual(500);
    expect((await predict('staged', { value: 3 })).status).toBe(200);
  });
});

describe('a handler that ends its process', () => {
  it.each([
    ['preprocess', 'exit'],
    ['preprocess', 'abort'],
    ['inference', 'exit'],
    ['postprocess', 'abort'],
    ['preprocess', 'garbage'],
    ['preprocess', 'close'],
  ])('%s: %s is answered once, and the worker is replaced for the others', async (stage, act) => {
    await server.untilReady('staged');
    const bad = await predict('staged', { stage, act });
    const good = await Promise.all(values(8).map((value) => predict('staged', { value })));
    if (act !== 'garbage' && act !== 'close') expect(bad.status).toBeGreaterThanOrEqual(500);
    expect(good.map(valueOf)).toEqual(values(8));
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
  });

  it('those that wait behind a killed run are answered by the replacement', async () => {
    const { workers } = await server.describe('calm');
    // One is enough: what comes while it runs waits for a full batch.
    const running = [predict('calm', { value: 0, ms: 60_000 })];
    await inFlight('calm', 1);
    const waiting = values(20).map((value) => predict('calm', { value }));
    await until(
      async () => ((await metric(server.metrics, 'onnxserve_queue_depth', { model: 'calm' })) > 0 ? true : undefined),
      'a queue',
    );
    process.kill(workers[0]!.pid, 'SIGKILL');
    const answers = await Promise.all(waiting);
    expect(answers.map(valueOf)).toEqual(values(20));
    expect(answers.every((answer) => pidOf(answer) !== workers[0]!.pid)).toBe(true);
    for (const { status } of await Promise.all(running)) expect([200, 500, 503, 507]).toContain(status);
  });
});

describe('what a handler throws', () => {
  const odd = ['string', 'nothing', 'bare', 'loop', 'odd', 'error'];
  it.each(['preprocess', 'inference', 'postprocess'])('in %s fails that request, whatever it is', async (stage) => {
    const { pid } = (await server.untilReady('staged')).workers[0]!;
    const answers = await Promise.all([
      ...odd.map((act) => predict('staged', { stage, act })),
      ...values(6).map((value) => predict('staged', { value })),
    ]);
    for (const answer of answers.slice(0, odd.length)) expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(answers.slice(odd.length).map(valueOf)).toEqual(values(6));
    expect((await server.describe('staged')).workers[0]!.pid).toBe(pid);
  });

  it('to nobody is logged and harms nobody', async () => {
    const { pid } = (await server.untilReady('staged')).workers[0]!;
    expect((await predict('staged', { stage: 'preprocess', act: 'later', value: 1 })).status).toBe(200);
    await until(async () => (server.logs().includes('nor this') ? true : undefined), 'both rejections are in the log');
    expect(server.logs()).toContain('nobody awaits this');
    expect(pidOf(await predict('staged', { value: 2 }))).toBe(pid);
  });
});

it('5 MB and binary on stdout do not stop a request', async () => {
  expect((await predict('staged', { stage: 'preprocess', act: 'stdout', value: 1 })).status).toBe(200);
  expect((await predict('staged', { stage: 'inference', act: 'binary', value: 2 })).status).toBe(200);
  await until(async () => (server.logs().includes('end of it') ? true : undefined), 'the output is in the log');
});

describe('tensors of a handler', () => {
  const row = (seed: number) => [seed, seed + 0.5, -seed, 2 * seed];

  it('one object given to many requests stays whole', async () => {
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(values(10).map(() => predict('tensors', { shared: true })));
      for (const { json } of answers) expect(json).toEqual({ rows: [[1, 2, 3, 4]] });
    }
  });

  it('outputs that are written to belong to one request', async () => {
    const sent = values(40).map((seed) => Array.from({ length: 1 + (seed % 3) }, (_, i) => row(seed + i + 1)));
    const answers = await Promise.all(sent.map((rows) => predict('tensors', { rows })));
    expect(answers.map(({ json }) => json)).toEqual(sent.map((rows) => ({ rows })));
  });
});

/** A request that can be given up. */
function leaving(model: string, body: unknown) {
  const abort = new AbortController();
  const done = fetch(`${server.inference}/predictions/${model}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal: abort.signal,
  }).then(
    async (response) => await response.text(),
    () => undefined,
  );
  return { leave: () => abort.abort(), done };
}

describe('clients that leave', () => {
  it('while queued: their requests are never run, and the worker stays', async () => {
    const first = await predict('calm', { value: 0 });
    const long = predict('calm', { value: 1, ms: 1500 });
    await inFlight('calm', 1);
    const left = values(20).map(() => leaving('calm', { ms: 5000 }));
    await until(
      async () => ((await metric(server.metrics, 'onnxserve_queue_depth', { model: 'calm' })) >= 12 ? true : undefined),
      'a queue',
    );
    for (const it of left) it.leave();
    await Promise.all(left.map((it) => it.done));
    expect((await long).status).toBe(200);
    const last = await predict('calm', { value: 2 });
    expect(pidOf(last)).toBe(pidOf(first));
    const calls = (answer: Answer) => (answer.json as { calls: number }).calls;
    expect(calls(last) - calls(first)).toBe(2);
  });

  it.each(['preprocess', 'inference', 'postprocess'])('in %s: the worker stays and serves', async (stage) => {
    const { pid } = (await server.untilReady('staged')).workers[0]!;
    // Long enough to be seen, all four together shorter than responseTimeout.
    const ms = stage === 'inference' ? 400 : 1200;
    const left = values(4).map(() => leaving('staged', { stage, act: 'sleep', ms }));
    await inFlight('staged', 4);
    for (const it of left) it.leave();
    const answer = await predict('staged', { value: 1 });
    expect(answer.status).toBe(200);
    expect(pidOf(answer)).toBe(pid);
    await inFlight('staged', 0);
  });

  it("in a stream: the handler's generator ends", async () => {
    const call = httpRequest(`${server.inference}/predictions/streams`, { method: 'POST' });
    call.on('error', () => undefined);
    const started = new Promise<void>((resolve) => call.on('response', (response) => response.once('data', () => resolve())));
    call.end(JSON.stringify({ kind: 'endless' }));
    await started;
    call.destroy();
    await until(
      async () => ((await predict('streams', {})).json as { open: number }).open === 0 || undefined,
      'the generator ended',
    );
    await inFlight('streams', 0);
  });

  it('in a stream whose generator hangs: the place is free again', async () => {
    const { pid } = (await server.untilReady('streams')).workers[0]!;
    const call = httpRequest(`${server.inference}/predictions/streams`, { method: 'POST' });
    call.on('error', () => undefined);
    const started = new Promise<void>((resolve) => call.on('response', (response) => response.once('data', () => resolve())));
    call.end(JSON.stringify({ kind: 'stuck' }));
    await started;
    call.destroy();
    await inFlight('streams', 0);
    expect(pidOf(await predict('streams', {}))).toBe(pid);
  });
});

it('a slow reader holds the stream back instead of filling memory', async () => {
  const before = (await predict('streams', {})).json as { rss: number };
  const call = httpRequest(`${server.inference}/predictions/streams`, { method: 'POST' });
  call.end(JSON.stringify({ kind: 'large', megabytes: 200 }));
  const response = await new Promise<import('node:http').IncomingMessage>((resolve) => call.on('response', resolve));
  response.pause();
  const during = (await predict('streams', {})).json as { rss: number };
  expect(during.rss - before.rss).toBeLessThan(100 * 1024 * 1024);
  let bytes = 0;
  for await (const chunk of response) bytes += (chunk as Buffer).length;
  expect(bytes).toBe(200 * 1024 * 1024);
});

it('a deadline is answered in the queue and at the worker', async () => {
  const answers = await Promise.all(values(4).map((value) => predict('late', { value, ms: 1000 })));
  for (const answer of answers) {
    expect(answer.status).toBe(504);
    expect(messageOf(answer)).toContain('clientTimeoutInMills');
  }
  // What the worker had begun it finishes first, so the next ones may be too late as well.
  await until(async () => ((await predict('late', { value: 9 })).status === 200 ? true : undefined), 'the worker is free again');
});

it('adaptive batching never waits with one request and fills batches under load', async () => {
  const batchIn = (answer: Answer) => (answer.json as { batch: number }).batch;
  expect(batchIn(await predict('calm', { value: 0 }))).toBe(1);
  const answers = await Promise.all(values(41).map((value) => predict('calm', { value, ms: 20 })));
  expect(answers.map(valueOf)).toEqual(values(41));
  const full = answers.filter((answer) => batchIn(answer) === 4).length;
  // Only the first and the last batch may be smaller.
  expect(full).toBeGreaterThanOrEqual(32);
});

describe('models that come, go and grow under load', () => {
  const register = (query: string) => send('POST', `${server.management}/models?${query}`);
  const remove = (name: string) => send('DELETE', `${server.management}/models/${name}`);

  it('1 → 4 → 1 → 0 workers: every request is answered', async () => {
    await server.addModel('grows', { handlerSource: whole });
    expect((await register('url=grows.mar&initial_workers=1&synchronous=true&batch_size=2')).status).toBe(200);
    const scale = (count: number) =>
      send('PUT', `${server.management}/models/grows?min_worker=${count}&max_worker=${count}&synchronous=true`);
    const load = async () => await Promise.all(values(40).map((value) => predict('grows', { value, ms: 10 })));
    for (const count of [4, 1]) {
      const [answers, scaled] = await Promise.all([load(), scale(count)]);
      expect(scaled.status).toBe(200);
      expect(answers.map(valueOf)).toEqual(values(40));
    }
    const [answers] = await Promise.all([load(), scale(0)]);
    for (const { status } of answers) expect([200, 503]).toContain(status);
    expect((await remove('grows')).status).toBe(200);
  });

  it('20 times registered and removed with requests on their way: none hangs', async () => {
    await server.addModel('flicker', { handlerSource: whole });
    for (let round = 0; round < 20; round++) {
      expect((await register('url=flicker.mar&initial_workers=1&synchronous=false')).status).toBe(202);
      const requests = values(5).map((value) => predict('flicker', { value, ms: 5 }));
      if (round % 2 === 0) await Promise.race(requests);
      expect((await remove('flicker')).status).toBe(200);
      for (const { status } of await Promise.all(requests)) expect([200, 404, 503]).toContain(status);
    }
  });

  it('removed while it loads', async () => {
    await server.addModel('loading', {
      handlerSource: 'export default { load: () => new Promise(() => {}), handle: (b) => b };',
    });
    expect((await register('url=loading.mar&initial_workers=2&synchronous=false')).status).toBe(202);
    const waiting = predict('loading', {});
    const { workers } = await server.describe('loading');
    expect((await remove('loading')).status).toBe(200);
    expect([404, 503]).toContain((await waiting).status);
    await until(async () => (workers.some(({ pid }) => alive(pid)) ? undefined : true), 'its workers are gone');
  });

  it('of two registrations at once of one name and version exactly one wins', async () => {
    await server.addModel('twin', { handlerSource: whole });
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([1, 2].map(() => register('url=twin.mar&initial_workers=1&synchronous=true')));
      expect(statuses(answers).sort((a, b) => a - b)).toEqual([200, 409]);
      expect((await predict('twin', { value: 1 })).status).toBe(200);
      expect((await remove('twin')).status).toBe(200);
    }
  });
});

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('the end of the server', () => {
  it('SIGTERM: accepted requests are answered, idle connections do not hold it, no child is left, code 0', async () => {
    const own = await startServer({ models: { calm: { handlerSource: whole, config: { ...one, batchSize: 4 } } } });
    const { Agent } = await import('node:http');
    const agent = new Agent({ keepAlive: true, maxSockets: 20 });
    await Promise.all(
      values(20).map(
        () =>
          new Promise<void>((resolve, reject) => {
            httpRequest(`${own.inference}/ping`, { agent }, (response) => response.resume().on('end', resolve))
              .on('error', reject)
              .end();
          }),
      ),
    );
    const { workers } = await own.describe('calm');
    const requests = values(8).map((value) => post(`${own.inference}/predictions/calm`, { value, ms: 1000 }));
    await until(async () => {
      const counts = await Promise.all(
        ['onnxserve_queue_depth', 'onnxserve_in_flight'].map((name) => metric(own.metrics, name, { model: 'calm' })),
      );
      return counts.reduce((sum, count) => sum + count, 0) === 8 ? true : undefined;
    }, 'all are accepted');
    expect(await own.stop()).toBe(0);
    expect(statuses(await Promise.all(requests))).toEqual(values(8).map(() => 200));
    expect(workers.filter(({ pid }) => alive(pid))).toEqual([]);
    agent.destroy();
  });

  it('SIGKILL of the front: no worker is left', async () => {
    const own = await startServer({ models: { calm: { handlerSource: whole, config: { minWorkers: 2, maxWorkers: 2 } } } });
    const { workers } = await own.describe('calm');
    const busy = post(`${own.inference}/predictions/calm`, { value: 1, ms: 60_000 }).catch(() => undefined);
    const front = parentOf(workers[0]!.pid);
    process.kill(await front, 'SIGKILL');
    await busy;
    await until(async () => (workers.some(({ pid }) => alive(pid)) ? undefined : true), 'the workers are gone');
    await own.stop();
  });

  it('SIGKILL of the front while a handler blocks its thread: no worker is left', async () => {
    const source = `export default { handle() { console.log('blocking'); for (;;); } };`;
    const own = await startServer({ models: { blocked: { handlerSource: source, config: { minWorkers: 1, maxWorkers: 1 } } } });
    const { workers } = await own.describe('blocked');
    const busy = post(`${own.inference}/predictions/blocked`, { value: 1 }).catch(() => undefined);
    await until(async () => (own.logs().includes('blocking') ? true : undefined), 'the handler blocks');
    process.kill(await parentOf(workers[0]!.pid), 'SIGKILL');
    await busy;
    await until(async () => (alive(workers[0]!.pid) ? undefined : true), 'the worker is gone');
    await own.stop();
  });
});

async function parentOf(pid: number): Promise<number> {
  const child = spawn('ps', ['-o', 'ppid=', '-p', String(pid)]);
  let text = '';
  for await (const chunk of child.stdout) text += String(chunk);
  return Number(text.trim());
}
