import { createHash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { brotliCompressSync, deflateSync, gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, get, messageOf, metric, post } from '../helpers/client.js';
import { memoryOf, parentOf, peakMemory } from '../helpers/process.js';
import { exchange, type RawAnswer, type RawRequest, socketTalk } from '../helpers/raw.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

/** Tells what it was sent, as far as the query asks. */
const mirror = `
import { createHash } from 'node:crypto';
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
export default {
  handle: (batch) => batch.map(({ request }) => {
    const ask = Object.fromEntries(request.query);
    try {
      switch (ask.as) {
        case 'json': return { type: request.contentType ?? null, json: request.json() };
        case 'text': return { type: request.contentType ?? null, text: request.text() };
        case 'parts': return request.parts().map(({ name, filename, contentType, data }) => (
          { name, filename: filename ?? null, type: contentType ?? null, size: data.length, hash: hash(data) }));
        case 'answer': return Buffer.alloc(Number(ask.size), 'x');
        default: return { size: request.body().length, hash: hash(request.body()), type: request.contentType ?? null };
      }
    } catch (error) { return error; }
  }),
};`;

/** Answers of every kind, each request its own. */
const kinds = `
import { respond } from '@onnxserve/handler-kit';
const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 255, 254, 128]);
export default {
  handle: (batch) => batch.map(({ request, ctx }) => {
    const kind = request.text();
    switch (kind) {
      case 'png': return respond(png, { status: 201, headers: { 'content-type': 'image/png', 'x-kind': 'png' } });
      case 'bytes': return png;
      case 'string': return 'plain ünïcode';
      case 'object': return { an: ['object', batch.length] };
      case 'null': return null;
      case 'undefined': return undefined;
      case 'teapot': ctx.response.status(418); ctx.response.header('x-kind', 'teapot'); return { short: true };
      case 'xml': ctx.response.contentType('application/xml'); return '<a/>';
      case 'bad-value': return respond('x', { headers: { 'x-kind': 'a\\r\\nset-cookie: b=c' } });
      case 'bad-name': return respond('x', { headers: { 'x kind': 'a' } });
      default: return 'unknown kind ' + kind;
    }
  }),
};`;

const one = { minWorkers: 1, maxWorkers: 1 };
const limit = 1_000_000;
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

let server: TestServer;
const to = (model: string, query = '') => `${server.inference}/predictions/${model}${query}`;
const ask = async (query: string, request: RawRequest) => exchange(to('mirror', query), request);
const jsonOf = (answer: RawAnswer) => JSON.parse(answer.body.toString()) as Record<string, unknown>;
const workerPid = async (model: string) => (await server.describe(model)).workers[0]!.pid;

beforeAll(async () => {
  server = await startServer({
    models: {
      mirror: { handlerSource: mirror, config: one },
      kinds: { handlerSource: kinds, config: { ...one, batchSize: 8, maxBatchDelay: 100 } },
      full: { handler: 'whole-batch', config: { ...one, jobQueueSize: 5 } },
      tensor: { model: 'identity-fp32.onnx', config: one },
    },
    config: { max_request_size: limit, max_response_size: 21_000_000 },
  });
});
afterAll(() => server.stop());

describe('the limit of a body', () => {
  /** Pieces of a chunked body. */
  const chunks = (bytes: Buffer) =>
    Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, i) => bytes.subarray(i * 65_536, (i + 1) * 65_536));

  it.each([
    ['content-length', limit - 1, 200],
    ['content-length', limit, 200],
    ['content-length', limit + 1, 413],
    ['chunked', limit - 1, 200],
    ['chunked', limit, 200],
    ['chunked', limit + 1, 413],
  ])('%s, %i bytes: %i', async (how, size, status) => {
    const bytes = randomBytes(size);
    const answer = await ask('', { body: how === 'chunked' ? chunks(bytes) : bytes });
    expect(answer.status).toBe(status);
    if (status === 200) expect(jsonOf(answer)).toMatchObject({ size, hash: hash(bytes) });
    else {
      expect(answer.headers['content-type']).toContain('application/json');
      expect(jsonOf(answer)['message']).toMatch(/max_request_size/);
      expect(jsonOf(answer)['message']).toContain(String(limit));
    }
  });

  it('the refusal can be read by a client that sends everything first', async () => {
    const body = Buffer.alloc(limit + 1, 'a');
    const head = `POST /predictions/mirror HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`;
    const answer = await socketTalk(server.inference, [head, body]);
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toContain('max_request_size');
  });

  it('an answer of 20 MB is sent whole; a larger one than allowed is a 5xx and the worker stays', async () => {
    const pid = await workerPid('mirror');
    const large = await ask('?as=answer&size=20000000', {});
    expect(large.status).toBe(200);
    expect(large.body.equals(Buffer.alloc(20_000_000, 'x'))).toBe(true);
    const refused = await ask('?as=answer&size=21000001', {});
    expect(refused.status).toBeGreaterThanOrEqual(500);
    expect(jsonOf(refused)['message']).toMatch(/21000001.*max_response_size/);
    expect((await ask('', { body: 'x' })).status).toBe(200);
    expect(await workerPid('mirror')).toBe(pid);
  });
});

it.runIf(process.platform === 'linux')('a body of 150 MB passes without being held three times by the front', async () => {
  const own = await startServer({
    models: { mirror: { handlerSource: mirror, config: one } },
    config: { max_request_size: 200_000_000 },
  });
  try {
    const front = await parentOf((await own.describe('mirror')).workers[0]!.pid);
    const before = await memoryOf(front);
    const bytes = Buffer.alloc(150_000_000, 'body ');
    const answer = await exchange(`${own.inference}/predictions/mirror`, { body: bytes });
    expect(answer.status).toBe(200);
    expect(jsonOf(answer)).toMatchObject({ size: bytes.length, hash: hash(bytes) });
    expect((await peakMemory(front)) - before).toBeLessThan(2 * bytes.length);
  } finally {
    await own.stop();
  }
});

describe('multipart bodies', () => {
  const boundary = 'b0undary';
  const type = (value = boundary) => ({ 'content-type': `multipart/form-data; boundary=${value}` });
  interface Part {
    readonly head: string;
    readonly data: string | Buffer;
  }
  const multipart = (parts: readonly Part[], end = `--${boundary}--\r\n`) =>
    Buffer.concat([
      ...parts.flatMap(({ head, data }) => [
        Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
        Buffer.from(data as string),
        Buffer.from('\r\n'),
      ]),
      Buffer.from(end),
    ]);
  const field = (name: string, more = '', extra = '') => `content-disposition: form-data; name="${name}"${more}${extra}`;
  const picture = randomBytes(50_000);
  const file = { head: field('file', '; filename="x.jpg"', '\r\ncontent-type: image/jpeg'), data: picture };
  const shown = { name: 'file', filename: 'x.jpg', type: 'image/jpeg', size: picture.length, hash: hash(picture) };
  const text = (name: string, value: string) => ({ head: field(name), data: value });
  const shownText = (name: string, value: string) => ({
    name,
    filename: null,
    type: null,
    size: value.length,
    hash: hash(Buffer.from(value)),
  });

  it.each([
    ['a field of any name', [file], [shown]],
    ['text and a file', [text('top_k', '5'), file], [shownText('top_k', '5'), shown]],
    ['a file and text', [file, text('top_k', '5')], [shown, shownText('top_k', '5')]],
    ['two of one name', [text('data', 'a'), text('data', 'bc')], [shownText('data', 'a'), shownText('data', 'bc')]],
    ['an empty part', [text('data', '')], [shownText('data', '')]],
    [
      'JSON with its own type',
      [{ head: field('data', '', '\r\ncontent-type: application/json'), data: '{"a":1}' }],
      [{ ...shownText('data', '{"a":1}'), type: 'application/json' }],
    ],
    [
      'a file name with any letters',
      [{ head: field('data', `; filename="x"; filename*=UTF-8''%E2%82%AC%20r.png`), data: 'p' }],
      [{ ...shownText('data', 'p'), filename: '\u20AC r.png', type: 'application/octet-stream' }],
    ],
  ])('%s', async (_, parts, expected) => {
    const answer = await ask('?as=parts', { headers: type(), body: multipart(parts) });
    expect(answer.status).toBe(200);
    expect(jsonOf(answer)).toEqual(expected);
  });

  it('a quoted boundary', async () => {
    const answer = await ask('?as=parts', { headers: type(`"${boundary}"`), body: multipart([file]) });
    expect(jsonOf(answer)).toEqual([shown]);
  });

  it('the part "data" is the body', async () => {
    const answer = await ask('', {
      headers: type(),
      body: multipart([text('a', 'x'), { head: field('data'), data: picture }, file]),
    });
    expect(jsonOf(answer)).toMatchObject({ size: picture.length, hash: hash(picture) });
  });

  it.each([
    ['no boundary in the header', { 'content-type': 'multipart/form-data' }, multipart([file])],
    ['another boundary', type('other'), multipart([file])],
    ['cut in a part', type(), multipart([file], '').subarray(0, 20_000)],
    ['without an end', type(), multipart([file], '')],
    ['no name', type(), multipart([{ head: 'content-disposition: form-data', data: 'x' }])],
    ['nothing at all', type(), Buffer.alloc(0)],
  ])('%s is a 400 in JSON', async (_, headers, body) => {
    const answer = await ask('?as=parts', { headers, body });
    expect(answer.status).toBe(400);
    expect(jsonOf(answer)).toMatchObject({ code: 400, reason: 'bad-input', message: expect.any(String) as string });
  });

  it.runIf(process.platform === 'linux')('leave neither files nor memory behind', async () => {
    const worker = await workerPid('mirror');
    const front = await parentOf(worker);
    const temp = join(dirname(server.store), 'tmp');
    const files = async () => (await readdir(temp, { recursive: true })).sort();
    const body = multipart([{ head: field('data', '; filename="x.bin"'), data: randomBytes(900_000) }]);
    const round = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const answers = await Promise.all([1, 2, 3, 4].map(() => ask('', { headers: type(), body })));
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      }
      return (await memoryOf(worker)) + (await memoryOf(front));
    };
    const before = await files();
    const warm = await round(15);
    // 216 MB of bodies.
    expect((await round(60)) - warm).toBeLessThan(120_000_000);
    expect(await files()).toEqual(before);
  });
});

describe('content types', () => {
  const json = '{"a":[1,"\u00fc"]}';
  const value = { a: [1, '\u00fc'] };
  it.each([
    ['application/json', json],
    ['application/json; charset=utf-8', json],
    ['APPLICATION/JSON', json],
    ['application/vnd.api+json', json],
    ['text/plain', json],
    [undefined, json],
    ['application/octet-stream', json],
    ['application/x-www-form-urlencoded', `data=${encodeURIComponent(json)}`],
    ['application/json', `\uFEFF${json}`],
  ])('JSON as %s', async (type, body) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    const answer = await ask('?as=json', { headers, body });
    expect(answer.status).toBe(200);
    expect(jsonOf(answer)).toEqual({ type: type?.split(';')[0]?.toLowerCase() ?? null, json: value });
  });

  it.each(['text/csv', 'application/octet-stream', 'image/png', undefined])('%s comes raw', async (type) => {
    const bytes = randomBytes(1000);
    const answer = await ask('', { headers: type === undefined ? {} : { 'content-type': type }, body: bytes });
    expect(jsonOf(answer)).toEqual({ size: 1000, hash: hash(bytes), type: type ?? null });
  });

  it.each(['{"a":', 'nonsense', '{"a":NaN}', ''])('%j is no JSON: 400', async (body) => {
    const answer = await ask('?as=json', { headers: { 'content-type': 'application/json' }, body });
    expect(answer.status).toBe(400);
    expect(jsonOf(answer)['message']).toMatch(/JSON/);
  });

  it('an empty body reaches the handler as empty', async () => {
    expect(jsonOf(await ask('', { body: '' }))).toMatchObject({ size: 0 });
  });
});

describe('shapes that no tensor can have', () => {
  const predict = (shape: unknown) =>
    post(to('tensor'), { inputs: [{ name: 'input', datatype: 'FP32', shape, data: [1, 2, 3, 4] }] });
  it.each([[[-1, 4]], [[1.5, 4]], [['1', 4]], [null], [{}], [[1, 3]], [[9007199254740991, 4]]])(
    '%j is refused, and the next five are served',
    async (shape) => {
      const refused = await predict(shape);
      expect(refused.status).toBe(400);
      expect(messageOf(refused)).toMatch(/shape|input/);
      const next = await Promise.all(Array.from({ length: 5 }, () => predict([1, 4])));
      expect(next.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    },
  );
});

describe('compression', () => {
  const json = JSON.stringify({ text: 'squeeze '.repeat(2000) });
  const compressed = (encoding: string, body: Uint8Array | string) =>
    ask('?as=json', { headers: { 'content-type': 'application/json', 'content-encoding': encoding }, body });

  it.each([
    ['gzip', gzipSync(json)],
    ['GZIP', gzipSync(json)],
    ['deflate', deflateSync(json)],
    ['br', brotliCompressSync(json)],
    ['identity', Buffer.from(json)],
  ])('a body in %s is read', async (encoding, body) => {
    const answer = await compressed(encoding, body);
    expect(answer.status).toBe(200);
    expect(jsonOf(answer)['json']).toEqual(JSON.parse(json));
  });

  it('an encoding it does not know is a 415 that names those it knows', async () => {
    const answer = await compressed('snappy', 'x');
    expect(answer.status).toBe(415);
    expect(jsonOf(answer)['message']).toMatch(/snappy.*gzip/);
  });

  it.each([
    ['plain', Buffer.from(json)],
    ['cut', gzipSync(json).subarray(0, 40)],
    ['empty', Buffer.from([0x1f, 0x8b])],
  ])('gzip that is %s is a 400', async (_, body) => {
    expect((await compressed('gzip', body)).status).toBe(400);
  });

  it('the unpacked size counts', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    expect(bomb.length).toBeLessThan(limit);
    const answer = await compressed('gzip', bomb);
    expect(answer.status).toBe(413);
    expect(jsonOf(answer)['message']).toMatch(/max_request_size/);
  });

  it('a large answer is packed only when asked for', async () => {
    const plain = await ask('?as=answer&size=1000000', {});
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.headers['vary']).toMatch(/accept-encoding/i);
    const packed = await ask('?as=answer&size=1000000', { headers: { 'accept-encoding': 'gzip' } });
    expect(packed.headers['vary']).toMatch(/accept-encoding/i);
    expect(packed.body.length).toBeLessThan(100_000);
    // Bytes without a type may be anything; they are packed all the same.
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
  });
});

describe('what a handler answers', () => {
  const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 255, 254, 128]);
  const kind = (body: string) => exchange(to('kinds'), { body });

  it('each of a batch has its own status, type, headers and bytes', async () => {
    const order = ['png', 'bytes', 'string', 'object', 'null', 'teapot', 'xml', 'bad-value'];
    const [picture, bytes, string, object, nothing, teapot, xml, bad] = await Promise.all(order.map(kind));
    expect(picture).toMatchObject({ status: 201, headers: { 'content-type': 'image/png', 'x-kind': 'png' } });
    expect(picture!.body.equals(png)).toBe(true);
    expect(bytes!.status).toBe(200);
    // What they are only the handler knows, and it did not say.
    expect(bytes!.headers['content-type']).toBeUndefined();
    expect(bytes!.body.equals(png)).toBe(true);
    expect(string!.status).toBe(200);
    expect(string!.headers['content-type']).toMatch(/^text\/plain/);
    expect(string!.body.toString()).toBe('plain \u00fcn\u00efcode');
    expect(object!.headers['content-type']).toMatch(/^application\/json/);
    // Otherwise they were no batch and the test shows nothing.
    expect(jsonOf(object!)).toEqual({ an: ['object', 8] });
    expect(nothing!.status).toBe(200);
    expect(nothing!.body.toString()).toBe('null');
    expect(teapot).toMatchObject({ status: 418, headers: { 'x-kind': 'teapot' } });
    expect(jsonOf(teapot!)).toEqual({ short: true });
    expect(xml!.headers['content-type']).toBe('application/xml');
    expect(bad!.status).toBe(500);
    expect(bad!.headers['set-cookie']).toBeUndefined();
  });

  it.each(['bad-value', 'bad-name', 'undefined'])('%s is a 500 whose cause is in the log, and the worker lives', async (what) => {
    const pid = await workerPid('kinds');
    const answer = await kind(what);
    expect(answer.status).toBe(500);
    expect(jsonOf(answer)).toMatchObject({ code: 500, reason: 'handler-error' });
    const cause = { 'bad-value': 'x-kind', 'bad-name': 'x kind', undefined: 'the handler returned nothing (undefined)' }[what]!;
    await until(async () => (server.logs().includes(cause) ? true : undefined), 'the cause is in the log');
    expect((await kind('string')).status).toBe(200);
    expect(await workerPid('kinds')).toBe(pid);
  });
});

const tensorOf = (values: number[]) => [{ name: 'input', shape: [1, 4], datatype: 'FP32', data: values }];
it.each<[string, (order: object) => object]>([
  ['/predictions/full', (order) => order],
  ['/v1/models/full:predict', (order) => ({ instances: [order] })],
  ['/v2/models/full/infer', (order) => ({ ...order, inputs: tensorOf([1, 2, 3, 4]) })],
])('a full queue is told at once on %s', async (path, form) => {
  const refusals = () => metric(server.metrics, 'onnxserve_requests_total', { model: 'full', reason: 'queue-full' });
  const before = await refusals();
  const answers: Answer[] = await Promise.all(
    Array.from({ length: 30 }, (_, value) => post(server.inference + path, form({ value, ms: 150 }))),
  );
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.length).toBeGreaterThanOrEqual(23);
  expect(refused.length).toBeLessThanOrEqual(24);
  for (const answer of refused) {
    expect(answer.status).toBe(503);
    expect(messageOf(answer)).toMatch(/full.*queue|queue.*full/);
    expect(messageOf(answer)).toContain('5');
    expect(answer.json).toMatchObject({ reason: 'queue-full' });
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  }
  expect((await refusals()) - before).toBe(refused.length);
  expect((await get(`${server.inference}/ping`)).status).toBe(200);
});
