import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, messageOf, post } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';

/** Says what it was given; the request may ask for more. */
const staged = `
import { PredictionError, respond } from '@onnxserve/handler-kit';
async function* pieces() { yield 'a'; yield 'b'; }
export default {
  preprocess(request, ctx) {
    const value = request.json();
    if (value?.refuse) throw new PredictionError('not this one', 422);
    if (value?.break) throw new Error('broken on purpose');
    return { value, text: request.text(), type: request.contentType, parts: request.parts().length, tensors: request.tensors, parameters: request.parameters };
  },
  async inference(batch) {
    await Promise.all(batch.map(({ value }) => new Promise((resolve) => setTimeout(resolve, value?.ms ?? 0))));
    return batch.map((item) => ({ ...item, batch: batch.length }));
  },
  postprocess({ value, text, type, parts, tensors, parameters, batch }, ctx) {
    if (value?.status) { ctx.response.status(value.status); ctx.response.header('x-from', String(value.status)); return 'set'; }
    if (value?.stream) return pieces();
    if (value?.bytes) return Uint8Array.of(255, 0);
    if (value?.json) return respond('{"a":[1]}', { headers: { 'content-type': 'application/json' } });
    if (value?.huge) return { big: 9007199254740993n };
    if (tensors) return { names: Object.keys(tensors), top: parameters.top, batch };
    return { value, text, type, parts, batch };
  },
  explain: ({ value }) => ({ why: value }),
};`;
const whole = `
let calls = 0;
export default { handle(batch) { calls++; return batch.map(({ request }) => ({ value: request.json(), batch: batch.length, calls })); } };`;
const form = `
export default { handle: (batch) => batch.map(({ request }) => ({ text: request.text(), names: request.parts().map((part) => part.name) })) };`;
const one = { minWorkers: 1, maxWorkers: 1 };
const models = {
  staged: { handlerSource: staged, config: { ...one, batchSize: 4 } },
  whole: { handlerSource: whole, config: { ...one, batchSize: 2 } },
  tensor: { model: 'identity-fp32.onnx', config: { ...one, batchSize: 4 } },
  long: { model: 'identity-int64.onnx', config: one },
  two: { model: 'two-outputs.onnx', config: one },
};

describe('under service_envelope=kserve', () => {
  let server: TestServer;
  const predict = (model: string, body: unknown, path = 'predictions') => post(`${server.inference}/${path}/${model}`, body);
  beforeAll(async () => {
    server = await startServer({ models, config: { service_envelope: 'kserve' } });
  });
  afterAll(() => server.stop());

  it('each instance is a request of its own, and they share a run', async () => {
    const answer = await predict('staged', { instances: ['héllo', { a: 1 }, 5] });
    expect(answer.headers.get('content-type')).toBe('application/json');
    const common = { type: 'application/json', parts: 1, batch: 3 };
    expect(answer.json).toEqual({
      predictions: [
        { ...common, value: 'héllo', text: 'héllo' },
        { ...common, value: { a: 1 }, text: '{"a":1}' },
        { ...common, value: 5, text: '5' },
      ],
    });
  });

  it('more instances than batchSize come in runs of batchSize, and the answers keep their order', async () => {
    const { json } = await predict('whole', { instances: [0, 1, 2, 3, 4] });
    const { predictions } = json as { predictions: Array<{ value: number; batch: number }> };
    expect(predictions.map(({ value }) => value)).toEqual([0, 1, 2, 3, 4]);
    expect(Math.max(...predictions.map(({ batch }) => batch))).toBe(2);
  });

  it('instances that take their time answer in order too', async () => {
    const { json } = await predict('staged', { instances: [{ ms: 40 }, { ms: 0 }, { ms: 20 }, { ms: 0 }, { ms: 5 }] });
    const { predictions } = json as { predictions: Array<{ value: { ms: number } }> };
    expect(predictions.map(({ value }) => value.ms)).toEqual([40, 0, 20, 0, 5]);
  });

  it('every kind of result has a form in the list', async () => {
    const instances = [{ stream: 1 }, { bytes: 1 }, { json: 1 }, { huge: 1 }];
    const { text } = await predict('staged', { instances });
    expect(text).toBe('{"predictions":["ab","/wA=",{"a":[1]},{"big":9007199254740993}]}');
  });

  it('one that is refused refuses the request, by its number; the next request is served', async () => {
    const refused = await predict('staged', { instances: [1, { refuse: true }, 3] });
    expect(refused.status).toBe(422);
    expect(messageOf(refused)).toBe('instance 1: not this one');
    const broken = await predict('staged', { instances: [1, 2, { break: true }] });
    expect(broken.status).toBe(500);
    expect(broken.json).toMatchObject({ reason: 'handler-error' });
    expect(broken.text).not.toContain('broken on purpose');
    expect((await predict('staged', { instances: [1] })).status).toBe(200);
  });

  it('status and headers of the instances meet in one answer', async () => {
    const answer = await predict('staged', { instances: [{ status: 201 }, { status: 203 }, 1] });
    expect(answer.status).toBe(203);
    expect(answer.headers.get('x-from')).toBe('203');
  });

  it('explanations are called so', async () => {
    expect((await predict('staged', { instances: [1, 2] }, 'explanations')).json).toEqual({
      explanations: [{ why: 1 }, { why: 2 }],
    });
  });

  it('a model without a handler takes each instance as a row', async () => {
    const rows = [
      [1, 2, 3, 4],
      [5, 6, 7, 8],
    ];
    expect((await predict('tensor', { instances: rows })).json).toEqual({ predictions: rows });
    const wrong = await predict('tensor', { instances: [rows[0], ['a', 1, 2, 3]] });
    expect(wrong.status).toBe(400);
    expect(messageOf(wrong)).toMatch(/^instance 1: .*"a"/);
  });

  it.each([
    ['{bad', 'not valid JSON'],
    ['', 'empty'],
    ['{"data": 1}', '{"instances": [...]}'],
    ['{"instances": []}', 'is empty'],
  ])('%s is a 400 that says what is wrong', async (body, words) => {
    const answer = await predict('staged', body);
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain(words);
  });

  it('the time of all instances is told as one', async () => {
    const answer = await predict('staged', { instances: [{ ms: 5 }, { ms: 30 }, 1, 2, 3] });
    const timing = Object.fromEntries(
      (answer.headers.get('server-timing') ?? '').split(', ').map((entry) => {
        const [name = '', dur = ''] = entry.split(';dur=');
        return [name, Number(dur)];
      }),
    );
    const { total = 0, receive: _, ...stages } = timing;
    const sum = Object.values(stages).reduce((all, value) => all + value, 0);
    expect(total).toBeGreaterThan(0);
    expect(sum).toBeGreaterThanOrEqual(30);
    expect(sum).toBeLessThanOrEqual(total + 0.01);
  });

  it('what the path says beats the setting', async () => {
    const answer = await post(`${server.inference}/v2/models/tensor/infer`, {
      inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }],
    });
    expect(answer.json).toMatchObject({ outputs: [{ shape: [1, 4], data: [1, 2, 3, 4] }] });
  });

  it('health and describe stand outside of it', async () => {
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
    expect((await get(`${server.management}/models/staged?customized=true`)).status).toBe(200);
  });
});

describe('without an envelope', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ models });
  });
  afterAll(() => server.stop());
  const infer = (model: string, body: unknown) => post(`${server.inference}/v2/models/${model}/infer`, body);

  it("TorchServe's paths give the body as it is", async () => {
    const answer = await post(`${server.inference}/predictions/staged`, { instances: [1, 2] });
    expect(answer.json).toMatchObject({ value: { instances: [1, 2] } });
  });

  it('/v1 speaks instances and predictions', async () => {
    const answer = await post(`${server.inference}/v1/models/tensor:predict`, { instances: [[1, 2, 3, 4]] });
    expect(answer.json).toEqual({ predictions: [[1, 2, 3, 4]] });
    const explained = await post(`${server.inference}/v1/models/staged:explain`, { instances: ['a'] });
    expect(explained.json).toEqual({ explanations: [{ why: 'a' }] });
  });

  it('/v2 speaks tensors, exact to the last digit', async () => {
    const { text } = await infer(
      'long',
      '{"id":"q","inputs":[{"name":"input","shape":[2,1],"datatype":"INT64","data":[9007199254740993,-1]}]}',
    );
    expect(text).toBe(
      '{"id":"q","model_name":"long","model_version":"1.0","outputs":[{"name":"output","datatype":"INT64","shape":[2,1],"data":[9007199254740993,-1]}]}',
    );
  });

  it('/v2 gives the outputs that were asked for', async () => {
    const { json } = await infer('two', { inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }] });
    const { outputs } = json as { outputs: Array<{ name: string }> };
    expect(outputs.length).toBe(2);
    const last = outputs.at(-1)!.name;
    const some = await infer('two', {
      inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }],
      outputs: [{ name: last }],
    });
    expect((some.json as { outputs: Array<{ name: string }> }).outputs.map(({ name }) => name)).toEqual([last]);
    const none = await infer('two', {
      inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }],
      outputs: [{ name: 'nope' }],
    });
    expect(none.status).toBe(400);
    expect(messageOf(none)).toContain('no output "nope"');
  });

  it('a handler gets tensors and parameters from /v2, and its result becomes a tensor', async () => {
    const body = { id: 'x', parameters: { top: 3 }, inputs: [{ name: 's', shape: [1], datatype: 'BYTES', data: ['a'] }] };
    const { json } = await infer('staged', body);
    expect(json).toEqual({
      id: 'x',
      model_name: 'staged',
      model_version: '1.0',
      outputs: [{ name: 's', datatype: 'BYTES', shape: [1], data: ['{"names":["s"],"top":3,"batch":1}'] }],
    });
  });

  it.each([
    [{ inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP64', data: [1, 2, 3, 4] }] }, 'expects FP32'],
    [{ inputs: [{ name: 'wrong', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }] }, 'no input "wrong"'],
    [{ inputs: [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3] }] }, 'needs 4 elements, got 3'],
    [{ instances: [[1, 2, 3, 4]] }, '"inputs" should be an array'],
  ])('/v2 refuses %j with 400', async (body, words) => {
    const answer = await infer('tensor', body);
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain(words);
  });
});

it('service_envelope=body leaves the one part that matters', async () => {
  const server = await startServer({
    models: { form: { handlerSource: form, config: one } },
    config: { service_envelope: 'body' },
  });
  try {
    const send = (body: string, type: string, path = 'predictions/form') =>
      post(`${server.inference}/${path}`, body, { 'content-type': type });
    const encoded = 'application/x-www-form-urlencoded';
    expect((await send('other=1&data=abc', encoded)).json).toEqual({ text: 'abc', names: ['body'] });
    expect((await send('body=abc&other=1', encoded)).json).toEqual({ text: 'abc', names: ['body'] });
    expect((await send('plain', 'text/plain')).json).toEqual({ text: 'plain', names: ['body'] });
    expect((await send('', 'text/plain', 'form/predict?data=query')).json).toEqual({ text: 'query', names: ['body'] });
  } finally {
    await server.stop();
  }
});
