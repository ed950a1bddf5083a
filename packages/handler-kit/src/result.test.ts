import { describe, expect, it } from 'vitest';
import { respond } from './respond.js';
import { RecordedControls } from './response-controls.js';
import { encodeResult } from './result.js';

const none = { status: undefined, contentType: undefined, headers: [] };
const encode = (value: unknown, set: (controls: RecordedControls) => void = () => {}) => {
  const controls = new RecordedControls();
  set(controls);
  const { status, headers, body } = encodeResult(value, controls.set);
  return { status, headers: Object.fromEntries(headers), body };
};
const text = (value: unknown): string => Buffer.from(encode(value).body as Uint8Array).toString();
async function drain(body: unknown): Promise<string[]> {
  const chunks: string[] = [];
  for await (const chunk of body as AsyncIterable<Uint8Array>) chunks.push(Buffer.from(chunk).toString());
  return chunks;
}

describe('bodies', () => {
  it('sends text as text and bytes exactly, without a type', () => {
    expect(encode('é')).toMatchObject({
      status: 200,
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      body: Buffer.from('é'),
    });
    const bytes = Buffer.from([0, 255, 10]);
    expect(encode(bytes)).toEqual({ status: 200, headers: {}, body: bytes });
    expect(encode(new Uint8Array(bytes)).headers).toEqual({});
  });

  it.each([
    [{ a: [1, 'x', true, null], b: undefined }, '{"a":[1,"x",true,null]}'],
    [5, '5'],
    [false, 'false'],
    [null, 'null'],
    [2n ** 63n, '9223372036854775808'],
    [{ out: new BigInt64Array([1n, -(2n ** 62n)]) }, '{"out":[1,-4611686018427387904]}'],
    [{ a: { b: 3n } }, '{"a":{"b":3}}'],
    [new Map([[5n, 'five']]), '{"5":"five"}'],
    [new Set([1, 2]), '[1,2]'],
    [{ f: new Float32Array([0.5, NaN, -Infinity]), u: new Uint8Array([1, 2]) }, '{"f":[0.5,null,null],"u":[1,2]}'],
    [[NaN, 1], '[null,1]'],
    [[undefined, 1], '[null,1]'],
    [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [{ '': '\ud83d"\n' }, String.raw`{"":"\ud83d\"\n"}`],
    [[], '[]'],
    [{}, '{}'],
    [-0, '0'],
    [1e21, '1e+21'],
  ])('writes %o as JSON', (value, json) => {
    expect(text(value)).toBe(json);
    expect(encode(value).headers).toEqual({ 'content-type': 'application/json' });
  });

  it('agrees with JSON.stringify on ordinary values', () => {
    const value = { list: Array.from({ length: 50 }, (_, at) => at / 7), deep: [[{ a: 'b' }], ['x', 1e-7]], none: null };
    expect(text(value)).toBe(JSON.stringify(value));
  });

  it('says what JSON cannot hold', () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = [cycle];
    expect(() => encode(cycle)).toThrow('self[0] refers to one of its own parents');
    expect(() => encode({ a: { f: () => 1 } })).toThrow('a.f is a function');
    expect(() => encode({ s: Symbol('x') })).toThrow('s is a symbol');
    let deep: unknown = 1;
    for (let level = 0; level < 5000; level++) deep = [deep];
    expect(() => encode(deep)).toThrow('1000 levels');
    const twice = { same: 1 };
    expect(text([twice, twice])).toBe('[{"same":1},{"same":1}]');
  });

  it('says that nothing was returned', () => {
    expect(() => encode(undefined)).toThrow('returned nothing');
    expect(() => encode(respond(undefined as never))).toThrow('returned nothing');
    expect(() => encode(Promise.resolve(1))).toThrow('promise');
  });
});

describe('status and headers', () => {
  it('takes what ctx.response was given; the content type of the handler wins', () => {
    const answer = encode('{}', (it) => {
      it.status(201);
      it.header('X-A', 'old');
      it.header('x-a', 'new');
      it.contentType('application/json');
    });
    expect(answer).toMatchObject({ status: 201, headers: { 'x-a': 'new', 'content-type': 'application/json' } });
  });

  it('lets respond() set its own', () => {
    const answer = encode(
      respond(Buffer.from('png'), { status: 202, headers: { 'Content-Type': 'image/png', 'X-B': '2' } }),
      (it) => {
        it.status(500);
        it.header('x-a', '1');
      },
    );
    expect(answer).toEqual({
      status: 202,
      headers: { 'Content-Type': 'image/png', 'X-B': '2', 'x-a': '1' },
      body: Buffer.from('png'),
    });
    const wins = encode(respond('x', { headers: { 'content-type': 'text/html' } }), (it) => it.contentType('text/css'));
    expect(wins.headers).toEqual({ 'content-type': 'text/css' });
  });

  it('does not take a result with a body key for a response', () => {
    expect(text({ body: 'x', status: 201 })).toBe('{"body":"x","status":201}');
  });

  it('sends a web Response', async () => {
    const headers = new Headers({ 'x-a': '1', 'content-length': '99' });
    headers.append('set-cookie', 'a=1');
    headers.append('set-cookie', 'b=2');
    const answer = encodeResult(new Response('text', { status: 203, headers }), none);
    expect(answer.status).toBe(203);
    expect(answer.headers).toEqual(
      expect.arrayContaining([
        ['x-a', '1'],
        ['set-cookie', 'a=1'],
        ['set-cookie', 'b=2'],
      ]),
    );
    expect(answer.headers.map(([name]) => name)).not.toContain('content-length');
    expect((await drain(answer.body)).join('')).toBe('text');
    expect(encode(new Response(null, { status: 204 }))).toMatchObject({ status: 204, body: new Uint8Array() });
  });

  it('drops the body where a status has none', () => {
    expect(encode(respond({ a: 1 }, { status: 204 }))).toEqual({ status: 204, headers: {}, body: new Uint8Array() });
  });

  it.each([199, 600, 99.5, Number.NaN, '200', 0])('refuses the status %s', (status) => {
    expect(() => encode('x', (it) => it.status(status as number))).toThrow('200 to 599');
    expect(() => encode(respond('x', { status: status as number }))).toThrow('200 to 599');
    expect(() => encodeResult('x', { ...none, status: status as number })).toThrow('200 to 599');
  });

  it.each([
    ['x-a', 'a\r\nx-b: 1'],
    ['x-a', '\u0000'],
    ['x-a', '€'],
    ['bad name', 'x'],
    ['', 'x'],
    ['x-a', undefined],
    ['Content-Length', '5'],
    ['transfer-encoding', 'chunked'],
  ])('refuses the header %j: %j', (name, value) => {
    expect(() => encode('x', (it) => it.header(name, value as string))).toThrow('illegal header');
    expect(() => encode(respond('x', { headers: { [name]: value as string } }))).toThrow('illegal header');
    expect(() => encodeResult('x', { ...none, headers: [[name, value as string]] })).toThrow('illegal header');
  });
});

describe('streams', () => {
  it('encodes each chunk as it comes', async () => {
    async function* chunks() {
      yield 'é';
      yield Buffer.from([65]);
      yield { n: 1n };
    }
    const answer = encode(respond(chunks(), { headers: { 'content-type': 'text/event-stream' } }));
    expect(answer.headers).toEqual({ 'content-type': 'text/event-stream' });
    expect(await drain(answer.body)).toEqual(['é', 'A', '{"n":1}\n']);
  });

  it('passes on an error after the first chunk', async () => {
    async function* broken() {
      yield 'a';
      throw new Error('broke');
    }
    await expect(drain(encode(broken()).body)).rejects.toThrow('broke');
  });

  it('refuses a chunk that is nothing', async () => {
    async function* nothing() {
      yield undefined;
    }
    await expect(drain(encode(nothing()).body)).rejects.toThrow('undefined');
  });
});
