import { randomBytes } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, decoded, GrpcClient, input, type Message } from '../helpers/grpc.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const limit = 300_000;
/** Answers a V2 request with its own inputs. */
const mirror = `
  import { respond } from '@onnxserve/handler-kit';
  export default { handle: (batch) => batch.map(({ request }) => {
    const { inputs, ...rest } = JSON.parse(request.text().replaceAll(/(\\d{16,})/g, '"#$1"'));
    const text = JSON.stringify({ ...rest, outputs: inputs }).replaceAll(/"#(\\d+)"/g, '$1');
    return respond(text, { headers: { 'content-type': 'application/json' } });
  }) };
`;
let server: TestServer;
let client: GrpcClient;

beforeAll(async () => {
  const config = { minWorkers: 1, maxWorkers: 1, responseTimeout: 30 };
  server = await startServer({
    models: {
      asks: { handler: 'grpc', config },
      busy: { handler: 'grpc', config: { ...config, jobQueueSize: 1 } },
      mirror: { handlerSource: mirror, config },
      tensors: { model: 'identity-int64.onnx', config },
    },
    config: { max_request_size: limit, max_response_size: limit },
  });
  client = new GrpcClient(server.grpcInference);
});
afterAll(async () => {
  client.close();
  await server.stop();
});

const asking = (what: object, more: Readonly<Record<string, string | Buffer>> = {}) => ({
  model_name: 'asks',
  input: input({ data: JSON.stringify(what), ...more }),
});
const predict = (what: object, options: Parameters<GrpcClient['call']>[3] = {}) =>
  client.call('inference', 'Predictions', asking(what), options);
const textOf = ({ messages }: Answer) => (messages[0] as { prediction: Buffer }).prediction.toString();

const aborts = async () => Number(textOf(await predict({ do: 'aborts' })));
/** The worker hears of a client that left a little after the client knows. */
const aborted = (count: number) => until(async () => ((await aborts()) === count ? true : undefined), 'the worker stops', 10_000);

/** The machine-readable cause in the trailers. */
function infoOf({ trailers }: Answer): { readonly code: number; readonly message: string; readonly info: Message } {
  const status = decoded('google.rpc.Status', trailers.get('grpc-status-details-bin')[0] as Buffer);
  return { ...status, info: decoded('google.rpc.ErrorInfo', status.details[0].value) };
}

describe('Predictions', () => {
  it('hands every input over as bytes, with the metadata as headers', async () => {
    const bytes = randomBytes(1000);
    const answer = await client.call('inference', 'Predictions', asking({ do: 'show' }, { picture: bytes, empty: '' }), {
      metadata: { 'x-request-id': 'mine', 'x-customer': 'seven', authorization: 'Bearer x' },
    });
    expect(answer.code).toBe(status.OK);
    const { parts, headers, id } = JSON.parse(textOf(answer)) as { parts: string[][]; headers: object; id: string };
    expect(new Map(parts as Array<[string, string]>)).toEqual(
      new Map([
        ['data', Buffer.from('{"do":"show"}').toString('hex')],
        ['picture', bytes.toString('hex')],
        ['empty', ''],
      ]),
    );
    expect(headers).toMatchObject({ 'x-customer': 'seven' });
    expect(Object.keys(headers)).not.toContain('content-type');
    expect(id).toBe('mine');
    expect(answer.headers.get('x-shown')).toEqual(['gr%C3%BC%C3%9F%20Gott']);
    expect(answer.trailers.get('x-request-id')).toEqual(['mine']);
    expect(answer.trailers.get('server-timing')[0]).toMatch(/queue;dur=.*inference;dur=.*total;dur=/);
  });

  it('answers with the joined stream of a streaming handler', async () => {
    expect(textOf(await predict({ do: 'stream', n: 3 }))).toBe('chunk0;chunk1;chunk2;');
    const after = await predict({ do: 'stream', n: 0 });
    expect([after.code, textOf(after)]).toEqual([status.OK, '']);
  });

  it('of a joined stream above the limit names the other method', async () => {
    const answer = await predict({ do: 'stream', n: 4, text: 'x'.repeat(100_000) });
    expect(answer.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(answer.details).toMatch(/StreamPredictions .*max_response_size/);
    expect((await predict({ do: 'show' })).code).toBe(status.OK);
  });

  it.each([
    [400, status.INVALID_ARGUMENT],
    [401, status.UNAUTHENTICATED],
    [404, status.NOT_FOUND],
    [429, status.RESOURCE_EXHAUSTED],
    [503, status.UNAVAILABLE],
  ])('gives what a handler throws or answers as %s its status', async (http, code) => {
    const thrown = await predict({ do: 'fail', status: http, text: `nein, ${'ü'.repeat(2000)}` });
    expect([thrown.code, thrown.details.slice(0, 6)]).toEqual([code, 'nein, ']);
    const answered = await predict({ do: 'status', status: http, text: 'so sad' });
    expect([answered.code, answered.details]).toEqual([code, 'so sad']);
  });

  it('keeps what a bug in a handler says to the log', async () => {
    const answer = await predict({ do: 'fail' });
    expect(answer.code).toBe(status.INTERNAL);
    expect(answer.details).not.toContain('a bug');
    expect(infoOf(answer).info).toMatchObject({ reason: 'handler-error', domain: 'onnxserve' });
  });

  it('tells an error in words, as a reason and with its id', async () => {
    const message = { model_name: 'nobody', input: {} };
    const answer = await client.call('inference', 'Predictions', message, { metadata: { 'x-request-id': 'lost' } });
    expect(answer.code).toBe(status.NOT_FOUND);
    expect(answer.details).toContain('nobody');
    expect(answer.trailers.get('x-error-reason')).toEqual(['not-found']);
    expect(answer.trailers.get('x-request-id')).toEqual(['lost']);
    expect(infoOf(answer)).toMatchObject({ code: 5, message: answer.details, info: { metadata: { request_id: 'lost' } } });
  });

  it('takes a message of the limit and refuses one above it with the setting', async () => {
    const of = (bytes: number) => ({
      model_name: 'asks',
      input: { data: Buffer.from('{"do":"show"}'), more: Buffer.alloc(bytes) },
    });
    expect((await client.call('inference', 'Predictions', of(100_000))).code).toBe(status.OK);
    const answer = await client.call('inference', 'Predictions', of(limit));
    expect(answer.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(answer.details).toMatch(/has 300\d+ bytes, more than the limit of 300000 bytes; raise max_request_size/);
    expect(answer.trailers.get('x-error-reason')).toEqual(['input-too-large']);
    const large = await predict({ do: 'big', n: limit + 1 });
    expect([large.code, large.details.includes('max_response_size')]).toEqual([status.RESOURCE_EXHAUSTED, true]);
  });

  it('counts a compressed message as what it becomes', async () => {
    const compressing = new GrpcClient(server.grpcInference, undefined, { 'grpc.default_compression_algorithm': 2 });
    const of = (bytes: number) => ({ model_name: 'asks', input: input({ data: '{"do":"show"}', more: Buffer.alloc(bytes) }) });
    expect((await compressing.call('inference', 'Predictions', of(limit / 4))).code).toBe(status.OK);
    const answer = await compressing.call('inference', 'Predictions', of(limit * 50));
    expect([answer.code, answer.details]).toEqual([status.RESOURCE_EXHAUSTED, expect.stringContaining('max_request_size')]);
    compressing.close();
  });

  it('refuses bytes that are no message', async () => {
    const path = '/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions';
    const answer = await client.raw(path, Buffer.from([0xff, 0xff, 0xff]));
    expect(answer.code).toBe(status.INVALID_ARGUMENT);
    expect((await client.raw(path.replace(/\w+$/, 'Nothing'), Buffer.alloc(0))).code).toBe(status.UNIMPLEMENTED);
  });

  it('answers when the deadline passes, and works no longer', async () => {
    const before = await aborts();
    const answer = await predict({ do: 'sleep', ms: 60_000 }, { deadlineMs: 300 });
    expect(answer.code).toBe(status.DEADLINE_EXCEEDED);
    // The only worker is free again.
    await aborted(before + 1);
    await until(
      async () => (/onnxserve_requests_total\{[^}]*outcome="DEADLINE_EXCEEDED"/.test(await metrics()) ? true : undefined),
      'the deadline is counted',
    );
  });

  it('works no longer for a client that cancels', async () => {
    const before = await aborts();
    const cancel = new AbortController();
    const running = predict({ do: 'sleep', ms: 60_000 }, { signal: cancel.signal });
    await until(async () => ((await inFlight('asks')) > 0 ? true : undefined), 'it runs', 10_000);
    cancel.abort();
    expect((await running).code).toBe(status.CANCELLED);
    await aborted(before + 1);
  });

  it('is UNAVAILABLE and says when to come back when the queue is full', async () => {
    const cancel = new AbortController();
    const ask = () =>
      client.call(
        'inference',
        'Predictions',
        { ...asking({ do: 'sleep', ms: 60_000 }), model_name: 'busy' },
        { signal: cancel.signal },
      );
    // Running, fetched ahead, waiting; whatever comes then is one too many.
    const all = Array.from({ length: 6 }, ask);
    const refused = await Promise.race(all);
    expect(refused.code).toBe(status.UNAVAILABLE);
    expect(refused.details).toContain('jobQueueSize');
    expect(refused.trailers.get('retry-after')).toEqual(['1']);
    expect(infoOf(refused).info.reason).toBe('queue-full');
    cancel.abort();
    await Promise.all(all);
  });
});

const metrics = async () => await (await fetch(`${server.metrics}/metrics`)).text();
async function inFlight(model: string): Promise<number> {
  const found = new RegExp(`^onnxserve_in_flight\\{[^}]*model="${model}"[^}]*\\} (\\d+)`, 'm').exec(await metrics());
  return Number(found?.[1] ?? 0);
}

describe('Open Inference', () => {
  it('describes a model', async () => {
    const { messages } = await client.call('openInference', 'ModelMetadata', { name: 'tensors' });
    expect(messages[0]).toMatchObject({
      name: 'tensors',
      versions: ['1.0'],
      inputs: [{ name: 'input', datatype: 'INT64', shape: ['-1', '-1'] }],
    });
    expect((await client.call('openInference', 'ModelReady', { name: 'tensors', version: '1.0' })).messages).toEqual([
      { ready: true },
    ]);
    expect((await client.call('openInference', 'ModelReady', { name: 'nobody' })).code).toBe(status.NOT_FOUND);
    expect((await client.call('openInference', 'ServerReady')).messages).toEqual([{ ready: true }]);
    expect((await client.call('openInference', 'ServerLive')).messages).toEqual([{ live: true }]);
  });

  it('turns a request into the JSON of REST and its answer back, 64-bit integers exact', async () => {
    const answer = await client.call('openInference', 'ModelInfer', {
      model_name: 'mirror',
      id: 'one',
      parameters: { big: { int64_param: '9007199254740993' } },
      inputs: [
        { name: 'i', datatype: 'INT64', shape: ['2'], contents: { int64_contents: ['9007199254740993', '-1'] } },
        { name: 'f', datatype: 'FP32', shape: ['1', '1'], contents: { fp32_contents: [0.5] } },
        { name: 't', datatype: 'BYTES', shape: ['1'], contents: { bytes_contents: [Buffer.from('grüß')] } },
        { name: 'b', datatype: 'BOOL', shape: ['2'], contents: { bool_contents: [true, false] } },
      ],
    });
    expect([answer.code, answer.details]).toEqual([status.OK, 'OK']);
    const [message] = answer.messages as [Message];
    expect(message).toMatchObject({ model_name: 'mirror', model_version: '1.0', id: 'one' });
    expect(message.parameters.big).toMatchObject({ int64_param: '9007199254740993' });
    expect(message.outputs.map((output: Message) => [output.name, output.datatype, output.shape])).toEqual([
      ['i', 'INT64', ['2']],
      ['f', 'FP32', ['1', '1']],
      ['t', 'BYTES', ['1']],
      ['b', 'BOOL', ['2']],
    ]);
    const [i, f, t, b] = message.outputs.map(({ contents }: Message) => contents);
    expect(i.int64_contents).toEqual(['9007199254740993', '-1']);
    expect(f.fp32_contents).toEqual([0.5]);
    expect(t.bytes_contents).toEqual([Buffer.from('grüß')]);
    expect(b.bool_contents).toEqual([true, false]);
  });

  it.each([
    ['an unknown datatype', { datatype: 'NOPE', contents: {} }, status.INVALID_ARGUMENT, 'NOPE'],
    [
      'contents in the wrong field',
      { datatype: 'FP32', contents: { int_contents: [1] } },
      status.INVALID_ARGUMENT,
      'int_contents',
    ],
    ['what JSON cannot hold', { datatype: 'FP32', contents: { fp32_contents: [NaN] } }, status.INVALID_ARGUMENT, 'NaN'],
  ])('refuses %s', async (_, tensor, code, named) => {
    const inputs = [{ name: 'x', shape: ['1'], ...tensor }];
    const answer = await client.call('openInference', 'ModelInfer', { model_name: 'mirror', inputs });
    expect([answer.code, answer.details]).toEqual([code, expect.stringContaining(named)]);
  });
});

describe('Ping', () => {
  it('answers as the REST ping does', async () => {
    const { messages } = await client.call('inference', 'Ping');
    expect(JSON.parse(messages[0].health)).toEqual({ status: 'Healthy' });
  });
});

it('writes a line for each call into the access log', async () => {
  const metadata = { 'x-request-id': 'logged-1' };
  await client.call('inference', 'Predictions', { model_name: 'nobody' }, { metadata });
  const line = await until(
    async () =>
      server
        .logs()
        .split('\n')
        .find((it) => it.includes('id=logged-1')),
    'the line is there',
  );
  expect(line).toMatch(
    /"gRPC org\.pytorch\.serve\.grpc\.inference\.InferenceAPIsService\/Predictions HTTP\/2\.0" 5 \d+ id=logged-1/,
  );
  expect(line).toContain('reason=not-found');
  expect(server.logs()).not.toContain('/Ping');
});
