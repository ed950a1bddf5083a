import { describe, expect, it } from 'vitest';
import { FakeInference, jsonOf, open, reply } from '../../test-support/listeners.js';
import { ServeError } from '../domain/errors.js';

const post = (body: string | Uint8Array, headers: Record<string, string> = {}) => ({ method: 'POST', body, headers });

describe('prediction paths', () => {
  it('gives the model, the version, the rest of the path and the exact bytes', async () => {
    const { at, inference } = await open();
    const bytes = Buffer.from([0, 1, 254, 255]);
    const answer = await fetch(`${at.inference}/predictions/kit/1.0/a%2Fb/c/?k=v`, post(bytes, { 'content-type': 'not a type' }));
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(bytes);
    expect(inference.last).toMatchObject({ modelName: 'kit', modelVersion: '1.0', kind: 'predict', urlPath: 'a/b/c' });
    expect(inference.last).toMatchObject({ query: [['k', 'v']], queryIsInput: false });
    expect(inference.last.rawHeaders).toContain('not a type');
    expect(answer.headers.get('content-type')).toBeNull();
  });

  it('takes any method, with or without a body', async () => {
    const { at, inference } = await open();
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'PROPFIND', 'HEAD']) {
      expect((await fetch(`${at.inference}/predictions/kit`, { method })).status).toBe(200);
    }
    const answer = await fetch(`${at.inference}/predictions/kit`, { method: 'DELETE', body: 'x' });
    expect(await answer.text()).toBe('x');
    expect(inference.requests).toHaveLength(7);
  });

  it.each([
    ['/explanations/kit', 'explain', []],
    [
      '/kit/predict?a=1&a=2',
      'predict',
      [
        ['a', '1'],
        ['a', '2'],
      ],
    ],
    ['/kit/1.0/predict?a=%zz', 'predict', [['a', '%zz']]],
    ['/models/kit/invoke?x=y+z', 'predict', [['x', 'y z']]],
    ['/v1/models/kit:predict', 'predict', []],
    ['/v1/models/kit:explain', 'explain', []],
    ['/v2/models/kit/infer', 'predict', []],
    ['/v2/models/kit/versions/1.0/infer', 'predict', []],
  ])('%s is a %s of kit', async (path, kind, query) => {
    const { at, inference } = await open();
    expect((await fetch(at.inference + path, post('x'))).status).toBe(200);
    expect(inference.last).toMatchObject({ modelName: 'kit', kind, query });
  });

  it('finds the model of /invocations in the query, the form or the one start-up model', async () => {
    const { at, inference, management } = await open();
    await fetch(`${at.inference}/invocations?model_name=kit`, post('x'));
    expect(inference.last.modelName).toBe('kit');
    const form = new FormData();
    form.append('data', new Blob(['name="model_name"\r\n\r\nkit']), 'model_name');
    form.append('model_name', 'inspect');
    await fetch(`${at.inference}/invocations`, { method: 'POST', body: form });
    expect(inference.last.modelName).toBe('inspect');
    await fetch(`${at.inference}/invocations`, { method: 'POST', body: new URLSearchParams({ model_name: 'kit' }) });
    expect(inference.last.modelName).toBe('kit');
    expect((await fetch(`${at.inference}/invocations`, post('x'))).status).toBe(400);
    management.startup = ['inspect'];
    expect((await fetch(`${at.inference}/invocations?model_name=`, post('x'))).status).toBe(200);
    expect(inference.last.modelName).toBe('inspect');
  });

  it.each(['/predictions', '/predictions/', '/predictions//', '/Predictions/kit', '//ping', '/v2/models/kit/foo', '/wfpredict'])(
    '%s is not found',
    async (path) => {
      const { at } = await open();
      const answer = await fetch(at.inference + path, post('{}'));
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ code: 404, type: 'ResourceNotFoundException', reason: 'not-found' });
    },
  );

  it('refuses a malformed escape in the path and names it', async () => {
    const { at } = await open();
    const answer = await fetch(`${at.inference}/predictions/%zz`, post('x'));
    expect(answer.status).toBe(400);
    expect((await jsonOf(answer)).message).toContain('%zz');
  });
});

describe('health', () => {
  it('pings with any method and below its path', async () => {
    const { at, management } = await open();
    expect(await (await fetch(`${at.inference}/ping/extra`, post('x'))).json()).toEqual({ status: 'Healthy' });
    management.unhealthy = [{ model: 'kit', reason: 'workers-too-few', message: '0 of 1' }];
    const answer = await fetch(`${at.inference}/ping`);
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({ status: 'Unhealthy', problems: [{ model: 'kit' }] });
  });

  it('tells liveness and readiness apart by status', async () => {
    const state = { live: true, ready: false, phase: 'serving' as const, problems: ['kit has 0 of 1 workers'], models: [] };
    const { at } = await open({}, { readiness: () => state });
    expect((await fetch(`${at.inference}/health/live`)).status).toBe(200);
    const answer = await fetch(`${at.inference}/v2/health/ready`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({ ready: false, phase: 'serving', problems: state.problems, models: [] });
    state.ready = true;
    expect((await fetch(`${at.inference}/health/ready`)).status).toBe(200);
  });
});

describe('answers of the handler', () => {
  const withReply = async (...[body, more]: Parameters<typeof reply>) =>
    (await open({}, { inference: new FakeInference(() => reply(body, more)) })).at.inference;

  it("carry its status and headers, but never the connection's", async () => {
    const headers = [
      ['content-type', 'image/png'],
      ['X-One', '1'],
      ['Cache-Control', 'max-age=5'],
      ['Content-Length', '3'],
      ['Transfer-Encoding', 'gzip'],
      ['x-request-id', 'mine'],
    ] as const;
    const base = await withReply(Buffer.from([137, 80, 0, 255]), { status: 201, headers });
    const answer = await fetch(`${base}/predictions/kit`, post('x', { 'x-request-id': 'abc-123' }));
    expect(answer.status).toBe(201);
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(Buffer.from([137, 80, 0, 255]));
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'image/png',
      'x-one': '1',
      'cache-control': 'max-age=5',
      pragma: 'no-cache',
      'x-request-id': 'abc-123',
    });
  });

  it.each([
    ['a header value with a line break', { headers: [['X-A', 'a\r\nSet-Cookie: b']] as const }],
    ['a header name with a space', { headers: [['X A', 'a']] as const }],
    ['a status that is no answer', { status: 102 }],
  ])('with %s are a 500 and the connection lives on', async (_what, more) => {
    const base = await withReply(Buffer.from('x'), more);
    const answer = await fetch(`${base}/predictions/kit`, post('x'));
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({ type: 'InternalServerException', reason: 'handler-error' });
    expect((await fetch(`${base}/ping`)).status).toBe(200);
  });

  it.each([204, 304])('with status %d have no body', async (status) => {
    const base = await withReply(Buffer.from('dropped'), { status });
    const answer = await fetch(`${base}/predictions/kit`, post('x'));
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe('');
  });

  it('say where the time went, in milliseconds', async () => {
    const stages = { queue: 1_500_000, preprocess: 20_000, wait: 0, inference: 3_000_001, postprocess: 999, encode: 5_000 };
    const base = await withReply(Buffer.from('x'), { stages });
    const timing = (await fetch(`${base}/predictions/kit`, post('x'))).headers.get('server-timing');
    expect(timing).toMatch(
      /^queue;dur=1\.500, preprocess;dur=0\.020, wait;dur=0\.000, inference;dur=3\.000, postprocess;dur=0\.001, encode;dur=0\.005, total;dur=\d+\.\d{3}, receive;dur=\d+\.\d{3}$/,
    );
  });
});

describe('errors', () => {
  const failing = async (error: unknown) => {
    const logged: unknown[] = [];
    const opened = await open(
      {},
      {
        inference: new FakeInference(async () => {
          throw error;
        }),
        log: { info: () => undefined, error: (fields) => logged.push(fields) },
      },
    );
    return { logged, base: opened.at.inference };
  };

  it("have TorchServe's body, the reason and the request id", async () => {
    const { base } = await failing(new ServeError('MODEL_NOT_READY', 'no worker'));
    const answer = await fetch(`${base}/predictions/kit`, post('x', { 'x-request-id': 'r-1' }));
    expect(answer.status).toBe(503);
    expect(await answer.text()).toBe(
      '{\n  "code": 503,\n  "type": "ServiceUnavailableException",\n  "message": "no worker",\n  "reason": "not-ready",\n  "requestId": "r-1"\n}\n',
    );
  });

  it('of a full queue are 503 on all three protocols and say when to come back', async () => {
    const { base } = await failing(new ServeError('QUEUE_FULL', 'The queue of kit is full (5 requests).'));
    for (const path of ['/predictions/kit', '/v1/models/kit:predict', '/v2/models/kit/infer']) {
      const answer = await fetch(base + path, post('{}'));
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toBe('1');
      expect(await answer.json()).toMatchObject({ reason: 'queue-full' });
    }
  });

  it.each([404, 429, 507, 599])('of a handler keep its status %d', async (status) => {
    const { base } = await failing(new ServeError('PREDICTION_ERROR', 'because', { status }));
    const answer = await fetch(`${base}/predictions/kit`, post('x'));
    expect(answer.status).toBe(status);
    expect(await answer.json()).toMatchObject({ code: status, type: 'InternalServerException', message: 'because' });
  });

  it('nobody expected go to the log, not to the client', async () => {
    const secret = new Error('password is hunter2');
    const { base, logged } = await failing(secret);
    const answer = await fetch(`${base}/predictions/kit`, post('x'));
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('hunter2');
    expect(logged).toMatchObject([{ err: secret }]);
  });
});

describe('request ids', () => {
  it.each([
    ['with a space', 'a b'],
    ['too long', 'x'.repeat(10_000)],
    ['not ASCII', 'caf\u00e9'],
  ])('%s are replaced', async (_what, hostile) => {
    const { at } = await open();
    const answer = await fetch(`${at.inference}/ping`, { headers: { 'x-request-id': hostile } });
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('reach the handler and differ when the client gave none', async () => {
    const { at, inference } = await open();
    await fetch(`${at.inference}/predictions/kit`, post('x', { 'x-request-id': 'abc-123' }));
    expect(inference.last.id).toBe('abc-123');
    const first = (await fetch(`${at.inference}/ping`)).headers.get('x-request-id');
    expect((await fetch(`${at.inference}/ping`)).headers.get('x-request-id')).not.toBe(first);
  });
});
