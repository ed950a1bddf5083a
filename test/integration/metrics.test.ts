import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, get, post } from '../helpers/client.js';
import { type Exposition, parseExposition } from '../helpers/exposition.js';
import { GrpcClient } from '../helpers/grpc.js';
import { exchange, socketTalk } from '../helpers/raw.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

/** Three stages whose times and failures the request chooses. */
const staged = `
import { PredictionError } from '@onnxserve/handler-kit';
const sleep = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));
export default {
  async preprocess(request) {
    const order = request.json();
    await sleep(order.before);
    if (order.bad) throw new PredictionError('a bad input on purpose', 400);
    return order;
  },
  async inference(batch) {
    await sleep(Math.max(...batch.map(({ during }) => during ?? 0)));
    return batch;
  },
  async postprocess(order) {
    await sleep(order.after);
    if (order.fail) throw new Error('a bug on purpose');
    return { value: order.value ?? null, pid: process.pid };
  },
};`;

/** Metrics of all kinds with hostile labels. */
const emits = `
export default {
  handle: (batch) => batch.map(({ request, ctx }) => {
    const order = request.json();
    ctx.metrics.counter('words_seen', order.words ?? 1, { lang: order.lang ?? 'en' });
    ctx.metrics.gauge('Confidence', 0.5, 'Percent', { what: 'a "quoted"\\nline\\\\end \\u00fc\\u{1f600}' });
    ctx.metrics.histogram('word_length', order.length ?? 3);
    return { pid: process.pid };
  }),
};`;
const conflicts = `
export default {
  handle: (batch) => batch.map(({ ctx }) => {
    ctx.metrics.gauge('words_seen', 7, 'Count', { lang: 'en' });
    ctx.metrics.histogram('word_length', 1, { other: 'label' });
    ctx.metrics.counter('only_here');
    return 'ok';
  }),
};`;

/** Answers in pieces: some, without end, or until it fails. */
const streams = `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function* pieces({ count, fail }) {
  for (let at = 0; at < count; at++) { yield 'piece ' + at + '\\n'; await sleep(5); }
  if (fail) throw new Error('a bug on purpose');
}
export default { preprocess: (request) => request.json(), inference: (batch) => batch, postprocess: (order) => pieces(order) };`;

const one = { minWorkers: 1, maxWorkers: 1 };
const hostile = 'we"ird {a="b",} \u00fc\u{1f600}';
let server: TestServer;
const predict = (model: string, body: unknown, headers: Record<string, string> = {}) =>
  post(`${server.inference}/predictions/${encodeURIComponent(model)}`, body, headers);
const values = (count: number) => Array.from({ length: count }, (_, value) => value);

async function scrape(from: TestServer = server): Promise<Exposition> {
  const answer = await get(`${from.metrics}/metrics`);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4(;|$)/);
  return parseExposition(answer.text);
}
const counted = async (model: string, labels: Record<string, string> = {}) =>
  (await scrape()).sum('onnxserve_requests_total', { model, ...labels });

beforeAll(async () => {
  server = await startServer({
    models: {
      four: { handlerSource: staged, config: { minWorkers: 4, maxWorkers: 4 } },
      stages: { handlerSource: staged, config: { minWorkers: 2, maxWorkers: 2 } },
      waits: { handlerSource: staged, config: one },
      outcomes: { handlerSource: staged, config: { ...one, jobQueueSize: 2, responseTimeout: 1 } },
      streams: { handlerSource: streams, config: one },
      emits: { handlerSource: emits, config: { minWorkers: 4, maxWorkers: 4 } },
      conflicts: { handlerSource: conflicts, config: one },
      hostile: { handlerSource: emits, modelName: hostile, config: one },
    },
  });
});
afterAll(() => server.stop());

describe('counters', () => {
  it('count each of 1000 requests once, whatever becomes of a worker', async () => {
    const { workers } = await server.describe('four');
    let sent = 0;
    let last = 0;
    const answers: Answer[] = [];
    for (let round = 0; round < 20; round++) {
      const load = values(50).map((value) => predict('four', { value, during: 1 }));
      if (round === 9) process.kill(workers[1]!.pid, 'SIGKILL');
      answers.push(...(await Promise.all(load)));
      sent += 50;
      const now = await scrape();
      const total = now.sum('onnxserve_requests_total', { model: 'four' });
      expect(total).toBe(sent);
      expect(now.sum('ts_inference_requests_total', { model_name: 'four' })).toBe(sent);
      expect(now.sum('onnxserve_request_duration_seconds_count', { model: 'four' })).toBe(sent);
      expect(total).toBeGreaterThan(last);
      last = total;
    }
    await until(async () => {
      const found = (await server.describe('four')).workers;
      return found.every(({ status, pid }) => status === 'READY' && pid !== workers[1]!.pid) ? true : undefined;
    }, 'the worker is replaced');
    const end = await scrape();
    const good = answers.filter(({ status }) => status === 200).length;
    expect(end.sum('onnxserve_requests_total', { model: 'four', outcome: 'ok' })).toBe(good);
    expect(end.sum('onnxserve_requests_total', { model: 'four' })).toBe(1000);
    expect(end.sum('onnxserve_worker_restarts_total', { model: 'four' })).toBe(1);
  });

  it('tell every way a request can end, once each', async () => {
    const by = async (reason: string) => counted('outcomes', reason === '' ? { outcome: 'ok' } : { reason });
    const all = async (bodies: readonly unknown[]) => Promise.all(bodies.map((body) => predict('outcomes', body)));
    for (const value of values(5)) expect((await predict('outcomes', { value })).status).toBe(200);
    for (const answer of [await predict('outcomes', { bad: true }), await predict('outcomes', { bad: true })])
      expect(answer.status).toBe(400);
    expect((await predict('outcomes', 'no JSON')).status).toBe(400);
    for (const value of values(2)) expect((await predict('outcomes', { value, fail: true })).status).toBe(500);
    for (const value of values(2)) {
      await server.untilReady('outcomes');
      expect((await predict('outcomes', { value, during: 60_000 })).status).toBeGreaterThanOrEqual(500);
    }
    await server.untilReady('outcomes');
    const leave = new AbortController();
    const gone = values(2).map((value) =>
      fetch(`${server.inference}/predictions/outcomes`, {
        method: 'POST',
        body: JSON.stringify({ value, during: 500 }),
        signal: leave.signal,
      }).catch(() => undefined),
    );
    const held = async () => {
      const now = await scrape();
      return now.sum('onnxserve_in_flight', { model: 'outcomes' }) + now.sum('onnxserve_queue_depth', { model: 'outcomes' });
    };
    await until(async () => ((await held()) === 2 ? true : undefined), 'both are accepted');
    leave.abort();
    await Promise.all(gone);
    await until(async () => ((await held()) === 0 ? true : undefined), 'both are given up');
    const answers = await all(values(6).map((value) => ({ value, during: 200 })));
    const refused = answers.filter(({ status }) => status === 503).length;
    expect(refused).toBeGreaterThanOrEqual(2);

    expect(await by('')).toBe(5 + answers.length - refused);
    expect(await by('bad-input')).toBe(3);
    expect(await by('handler-error')).toBe(2);
    expect(await by('response-timeout')).toBe(2);
    expect(await by('cancelled')).toBe(2);
    expect(await by('queue-full')).toBe(refused);
    expect(await counted('outcomes')).toBe(5 + 3 + 2 + 2 + 2 + answers.length);
  });
});

it('streams, refusals and calls over gRPC are counted as any request, once each', async () => {
  const by = async (labels: Record<string, string>) => await counted('streams', labels);
  const stream = async (order: unknown) => (await predict('streams', order)).text;
  expect(await stream({ count: 3 })).toBe('piece 0\npiece 1\npiece 2\n');
  await expect(stream({ count: 1, fail: true })).rejects.toThrow();
  const leave = new AbortController();
  const endless = await fetch(`${server.inference}/predictions/streams`, {
    method: 'POST',
    body: JSON.stringify({ count: 1e9 }),
    signal: leave.signal,
  });
  await endless.body?.getReader().read();
  leave.abort();
  expect((await predict('streams', new Uint8Array(6_553_501))).status).toBe(413);
  const client = new GrpcClient(server.grpcInference);
  try {
    const input = { data: Buffer.from(JSON.stringify({ count: 2 })) };
    const good = await client.call('inference', 'Predictions', { model_name: 'streams', input });
    expect(good.code).toBe(0);
    const bad = { data: Buffer.from('no JSON') };
    expect((await client.call('inference', 'Predictions', { model_name: 'streams', input: bad })).code).not.toBe(0);
    const talk = client.stream('inference', 'StreamPredictions', {
      model_name: 'streams',
      input: { data: Buffer.from(JSON.stringify({ count: 1e9 })) },
    });
    await talk.until(1);
    talk.cancel();
    await talk.ended();
  } finally {
    client.close();
  }
  await until(async () => ((await by({ reason: 'cancelled' })) === 2 ? true : undefined), 'both cancelled streams are counted');
  expect(await by({ outcome: 'ok' })).toBe(2);
  expect(await by({ reason: 'handler-error' })).toBe(1);
  expect(await by({ reason: 'bad-input' })).toBe(1);
  expect(await by({ reason: 'input-too-large' })).toBe(1);
  expect(await by({})).toBe(7);
  const unknown = async () => (await scrape()).sum('onnxserve_requests_total', { model: '', outcome: 'MODEL_NOT_FOUND' });
  const before = await unknown();
  expect((await predict('nobody', {})).status).toBe(404);
  expect(await unknown()).toBe(before + 1);
});

it('histograms of the stages say what Server-Timing says, and leave little over', async () => {
  const stages = ['queue', 'preprocess', 'wait', 'inference', 'postprocess', 'encode'];
  const slow = 10;
  const answers = await Promise.all(
    values(60).map((value) => predict('stages', { before: 4, during: value < slow ? 300 : 20, after: 4 })),
  );
  const seconds = (answer: Answer, name: string) =>
    Number(new RegExp(`(?:^|, )${name};dur=([\\d.]+)`).exec(answer.headers.get('server-timing') ?? '')?.[1]) / 1000;
  const now = await scrape();
  const of = (stage: string, part: string, more: Record<string, string> = {}) =>
    now.sum(`onnxserve_stage_duration_seconds_${part}`, { model: 'stages', stage, ...more });
  let inStages = 0;
  for (const stage of stages) {
    const timed = answers.reduce((sum, answer) => sum + seconds(answer, stage), 0);
    // Three decimals of a millisecond each.
    expect(Math.abs(of(stage, 'sum') - timed)).toBeLessThan(answers.length * 1e-6);
    expect(of(stage, 'count')).toBe(60);
    expect(of(stage, 'bucket', { le: '+Inf' })).toBe(60);
    inStages += of(stage, 'sum');
  }
  const total = now.sum('onnxserve_request_duration_seconds_sum', { model: 'stages' });
  expect(inStages).toBeLessThanOrEqual(total);
  expect(inStages / total).toBeGreaterThan(0.95);
  // Half of them are fast, more than one in twenty is slow: the buckets must tell the median from the 95th percentile.
  expect(of('inference', 'bucket', { le: '0.25' })).toBeGreaterThanOrEqual(30);
  expect(of('inference', 'bucket', { le: '0.25' })).toBeLessThanOrEqual(60 - slow);
  expect(of('inference', 'bucket', { le: '0.01' })).toBe(0);
});

it('gauges follow those who wait, down to none after errors and cancellations', async () => {
  const seen: Array<{ depth: number; running: number }> = [];
  const look = async () => {
    const now = await scrape();
    const found = {
      depth: now.sum('onnxserve_queue_depth', { model: 'waits' }),
      running: now.sum('onnxserve_in_flight', { model: 'waits' }),
    };
    seen.push(found);
    return found;
  };
  const load = Promise.all(values(10).map((value) => predict('waits', { value, during: 150, fail: value % 3 === 0 })));
  await until(async () => {
    const { depth, running } = await look();
    return depth + running === 10 ? true : undefined;
  }, 'all ten are accepted');
  const begun = seen.length - 1;
  await until(async () => {
    const { depth, running } = await look();
    return depth + running === 0 ? true : undefined;
  }, 'all ten have ended');
  await load;
  const depths = seen.slice(begun).map(({ depth }) => depth);
  expect(depths).toEqual([...depths].sort((a, b) => b - a));
  expect(new Set(depths).size).toBeGreaterThanOrEqual(4);
  expect(depths[0]).toBeGreaterThanOrEqual(8);
  // One runs, and one more may lie ready at the worker.
  expect(Math.max(...seen.map(({ running }) => running))).toBeLessThanOrEqual(2);
  expect(seen.some(({ running }) => running >= 1)).toBe(true);

  const leave = new AbortController();
  const gone = values(10).map((value) =>
    fetch(`${server.inference}/predictions/waits`, {
      method: 'POST',
      body: JSON.stringify({ value, during: 300 }),
      signal: leave.signal,
    }).catch(() => undefined),
  );
  await until(async () => ((await look()).depth >= 8 ? true : undefined), 'a queue');
  leave.abort();
  await Promise.all(gone);
  await until(async () => {
    const { depth, running } = await look();
    return depth + running === 0 ? true : undefined;
  }, 'nobody waits any more');
});

describe('the exposition', () => {
  it('stays parseable with hostile names and labels, in both formats', async () => {
    expect((await predict(hostile, { words: 2 })).status).toBe(200);
    const now = await scrape();
    expect(now.sum('onnxserve_requests_total', { model: hostile, outcome: 'ok' })).toBe(1);
    expect(now.of('Confidence').find(({ labels }) => labels['ModelName'] === hostile)).toMatchObject({
      labels: { what: 'a "quoted"\nline\\end \u00fc\u{1f600}' },
      value: 0.5,
    });
    const answer = await exchange(`${server.metrics}/metrics`, {
      method: 'GET',
      headers: { accept: 'application/openmetrics-text; version=1.0.0' },
    });
    expect(answer.headers['content-type']).toMatch(/^application\/openmetrics-text; version=1\.0\.0/);
    const open = parseExposition(answer.body.toString(), 'openmetrics');
    expect(open.sum('onnxserve_requests_total', { model: hostile, outcome: 'ok' })).toBe(1);
  });

  it('adds handler metrics up over workers; a conflicting definition is refused alone', async () => {
    const answers = await Promise.all(values(80).map((value) => predict('emits', { words: 3, length: value })));
    const pids = new Set(answers.map(({ json }) => (json as { pid: number }).pid));
    expect(pids.size).toBeGreaterThan(1);
    expect((await predict('conflicts', {})).status).toBe(200);
    const mine = { ModelName: 'emits' };
    await until(async () => {
      const now = await scrape();
      return now.sum('word_length_count', mine) === 80 && now.sum('only_here', { ModelName: 'conflicts' }) === 1
        ? true
        : undefined;
    }, 'the metrics have arrived');
    const now = await scrape();
    expect(now.sum('words_seen', { ...mine, lang: 'en' })).toBe(240);
    expect(now.sum('word_length_sum', mine)).toBe((79 * 80) / 2);
    expect(now.types.get('words_seen')).toBe('counter');
    expect(now.of('words_seen').filter(({ labels }) => labels['ModelName'] === 'conflicts')).toEqual([]);
    expect(now.sum('onnxserve_handler_metrics_refused_total', { model: 'conflicts', reason: 'conflict' })).toBe(2);
    const said = /words_seen.*conflicts.*refused/;
    await until(async () => (said.test(server.logs()) ? true : undefined), 'the refusal is in the log');
  });
});

describe('request ids', () => {
  it('of the caller come back in the header, the error and the log', async () => {
    const id = 'abc-123';
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const good = await predict('waits', { value: 1 }, { 'x-request-id': id, traceparent: trace });
    expect(good.headers.get('x-request-id')).toBe(id);
    const bad = await predict('waits', { bad: true }, { 'x-request-id': 'bad-456' });
    expect(bad.headers.get('x-request-id')).toBe('bad-456');
    expect(JSON.stringify(bad.json)).toContain('bad-456');
    const line = await until(async () => server.logs().match(/^.*id=abc-123.*$/m)?.[0], 'the access log has the id');
    expect(line).toMatch(/inference=[\d.]+/);
    await until(async () => (server.logs().includes('id=bad-456') ? true : undefined), 'the error is in the access log');
  });

  it.each([
    ['of 10 kB', `x-request-id: ${'a'.repeat(10_240)}`],
    ['with a line break', 'x-request-id: abc\r\n x-injected: yes'],
    ['with control characters', 'x-request-id: a\u0007b'],
    ['that are no ASCII', 'x-request-id: \u00fc\u00ff'],
    ['that are empty', 'x-request-id: '],
  ])('%s are never echoed', async (_, header) => {
    const head = `GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${header}\r\n\r\n`;
    const answer = await socketTalk(server.inference, [Buffer.from(head, 'latin1')]);
    const [top = ''] = answer.split('\r\n\r\n');
    expect(top).toMatch(/^x-request-id: [0-9a-f]{8}-[0-9a-f-]{27}$/m);
    expect(top).not.toMatch(/^x-injected/m);
    expect(answer).not.toContain('aaaa');
  });
});

describe('log lines', () => {
  async function probeAndPredict(config: Readonly<Record<string, string>>): Promise<string[]> {
    const own = await startServer({ models: { quiet: { handlerSource: staged, config: one } }, config });
    try {
      const before = own.logs().length;
      for (const path of ['/ping', '/v2/health/live', '/v2/health/ready', '/health/ready'])
        for (let i = 0; i < 5; i++) expect((await get(own.inference + path)).status).toBe(200);
      for (let i = 0; i < 5; i++) await scrape(own);
      for (const value of values(10)) expect((await post(`${own.inference}/predictions/quiet`, { value })).status).toBe(200);
      expect((await get(`${own.management}/models/nosuch`)).status).toBe(404);
      await own.stop();
      return own.logs().slice(before).split('\n').filter(Boolean);
    } catch (error) {
      await own.stop();
      throw error;
    }
  }

  it('leave out probes and are at most two for a prediction', async () => {
    const lines = await probeAndPredict({});
    expect(lines.filter((line) => /\/ping|\/health|\/metrics/.test(line))).toEqual([]);
    expect(lines.filter((line) => line.includes('/predictions/quiet'))).toHaveLength(10);
    // The ten, the 404, and the words of the shutdown.
    expect(lines.length).toBeLessThanOrEqual(30);
  });

  it('have one setting for their level', async () => {
    const lines = await probeAndPredict({ log_level: 'warn' });
    expect(lines.filter((line) => line.includes('ACCESS_LOG') || line.includes('/predictions'))).toEqual([]);
  });

  it('are JSON on demand', async () => {
    const lines = await probeAndPredict({ log_format: 'json' });
    const records = lines.map((line) => JSON.parse(line) as { url?: string; status?: number });
    expect(records.filter(({ url, status }) => url === '/predictions/quiet' && status === 200)).toHaveLength(10);
  });
});

describe('metrics_mode', () => {
  it('log still has data and says where the rest is', async () => {
    const own = await startServer({ models: { m: { handlerSource: staged, config: one } }, config: { metrics_mode: 'log' } });
    try {
      const { text } = await get(`${own.metrics}/metrics`);
      expect(text).toMatch(/^# .*metrics_mode/);
      expect(text).toContain('onnxserve_requests_total{model="m"');
    } finally {
      await own.stop();
    }
  });

  it('enable_metrics_api=false is a 404, not an empty answer', async () => {
    const own = await startServer({
      models: { m: { handlerSource: staged, config: one } },
      config: { enable_metrics_api: false, metrics_address: 'http://127.0.0.1:0' },
    });
    try {
      const answer = await get(`${own.inference}/metrics`);
      expect(answer.status).toBe(404);
      expect(answer.text).toContain('enable_metrics_api');
    } finally {
      await own.stop();
    }
  });
});
