import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createRequest } from './create-request.js';
import { PredictionError } from './errors.js';
import type { StandardSchema } from './request.js';

const body = (data: string | Uint8Array, headers: Record<string, string> = {}, limit?: number) =>
  createRequest({
    id: 'r',
    kind: 'predict',
    rawHeaders: Object.entries(headers).flat(),
    urlPath: '',
    query: [],
    body: typeof data === 'string' ? Buffer.from(data) : data,
    signal: new AbortController().signal,
    ...(limit === undefined ? {} : { maxDecompressedBytes: limit }),
  });

function failure(run: () => unknown): { status: number; message: string } {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(PredictionError);
    return error as PredictionError;
  }
  throw new Error('it did not fail');
}

describe('headers', () => {
  it('joins repeated headers and keeps the raw ones', () => {
    const rawHeaders = ['X-A', '1', 'x-a', '2', 'Content-Type', 'Text/Plain; charset=utf-8'];
    const request = createRequest({
      id: '1',
      kind: 'predict',
      rawHeaders,
      urlPath: 'a',
      query: [],
      body: Buffer.alloc(0),
      signal: AbortSignal.abort(),
    });
    expect(request.headers['x-a']).toBe('1, 2');
    expect(request.rawHeaders).toBe(rawHeaders);
    expect(request.contentType).toBe('text/plain');
    expect(request.signal.aborted).toBe(true);
  });

  it('has no content type when none came', () => {
    expect(body('x').contentType).toBeUndefined();
    expect(body('x', { 'content-type': ' ' }).contentType).toBeUndefined();
  });
});

describe('content encoding', () => {
  const text = JSON.stringify({ text: 'x'.repeat(5000) });
  it.each([
    ['gzip', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['GZIP', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['deflate', deflateRawSync(text)],
    ['br', brotliCompressSync(text)],
    ['identity', Buffer.from(text)],
    ['deflate, gzip', gzipSync(deflateSync(text))],
  ])('decodes %s', (encoding, data) => {
    expect(body(data, { 'Content-Encoding': encoding }).json()).toEqual(JSON.parse(text));
  });

  it('refuses an unknown encoding with 415', () => {
    expect(failure(() => body('x', { 'content-encoding': 'zstd' }).body())).toMatchObject({
      status: 415,
      message: expect.stringContaining('zstd'),
    });
    expect(failure(() => body('x', { 'content-encoding': 'constructor' }).body()).status).toBe(415);
    expect(failure(() => body(gzipSync('x'), { 'content-encoding': 'gzip,gzip,gzip,gzip' }).body()).status).toBe(415);
  });

  it.each([
    ['a plain body', Buffer.from(text)],
    ['a cut body', gzipSync(text).subarray(0, 30)],
  ])('answers %s under a gzip header with 400', (_, data) => {
    expect(failure(() => body(data, { 'content-encoding': 'gzip' }).body()).status).toBe(400);
  });

  it('stops at the limit and names the setting', () => {
    const bomb = gzipSync(Buffer.alloc(1_000_000));
    expect(failure(() => body(bomb, { 'content-encoding': 'gzip' }, 999_999).body())).toMatchObject({
      status: 413,
      reason: 'input-too-large',
      message: expect.stringMatching(/999999.*max_request_size/),
    });
    expect(body(bomb, { 'content-encoding': 'gzip' }, 1_000_000).body()).toHaveLength(1_000_000);
  });

  it('takes an empty body as empty', () => {
    expect(body('', { 'content-encoding': 'gzip' }).body()).toHaveLength(0);
  });
});

describe('charset', () => {
  const typed = (charset: string) => ({ 'content-type': `text/plain; charset=${charset}` });
  it.each([
    ['utf-8', Buffer.from('naïve 😀')],
    ['"UTF-8"', Buffer.from('\ufeffnaïve 😀')],
    ['utf-16', Buffer.from('\ufeffnaïve 😀', 'utf16le')],
    ['utf-16', Buffer.from('\ufeffnaïve 😀', 'utf16le').swap16()],
    ['utf-16le', Buffer.from('naïve 😀', 'utf16le')],
    ['utf-16be', Buffer.from('naïve 😀', 'utf16le').swap16()],
  ])('reads %s', (charset, data) => {
    expect(body(data, typed(charset)).text()).toBe('naïve 😀');
  });

  it('reads latin1 byte by byte', () => {
    expect(body(Buffer.from([0xe9, 0x80]), typed('ISO-8859-1')).text()).toBe('\u00e9\u0080');
    expect(body(Buffer.from([0x80]), typed('windows-1252')).text()).toBe('€');
  });

  it('refuses an unknown charset and bytes that are not valid', () => {
    expect(failure(() => body('x', typed('klingon')).text())).toMatchObject({
      status: 415,
      message: expect.stringContaining('klingon'),
    });
    expect(failure(() => body(Buffer.from([0x61, 0xff])).text()).status).toBe(400);
    expect(failure(() => body(Buffer.from([0xed, 0xa0, 0xbd])).json()).status).toBe(400);
    expect(failure(() => body(Buffer.from([0x00, 0xd8]), typed('utf-16le')).text()).status).toBe(400);
    expect(failure(() => body(Buffer.from([0xe9]), typed('us-ascii')).text()).status).toBe(400);
  });
});

describe('JSON', () => {
  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/vnd.api+json',
    'text/plain',
    'application/octet-stream',
  ])('parses a body of %s', (type) => expect(body('\ufeff{"a":[1]}', { 'Content-Type': type }).json()).toEqual({ a: [1] }));

  it('parses without a type, and what curl -d mislabels', () => {
    expect(body('{"a":"é"}').json()).toEqual({ a: 'é' });
    expect(body('{"a":"50%&b=c"}', { 'content-type': 'application/x-www-form-urlencoded' }).json()).toEqual({ a: '50%&b=c' });
    expect(body(String.raw`{"a":"\u00e9"}`).json()).toEqual({ a: 'é' });
  });

  it.each([
    ['', 'empty'],
    ['  \n', 'empty'],
    ['{', 'position 1 '],
    ['{"a":}', '"}" at position 5 '],
    ['[1,,2]', '"," at position 3 '],
    ['[1,\n x]', '"x" at position 5 (line 2, column 2)'],
    ['"abc', 'end of the body at position 4 '],
    ['"a\nb"', 'position 2 '],
    [String.raw`"\x"`, 'position 1 '],
    ['{"a" 1}', '"1" at position 5 '],
    ['{"a":1,}', '"}" at position 7 '],
    ["{'a':1}", '"\'" at position 1 '],
    ['01', '"1" at position 1 '],
    ['[1]]', '"]" at position 3 '],
    ['NaN', '"N" at position 0 '],
  ])('says where %j is wrong', (text, where) => {
    expect(failure(() => body(text).json())).toMatchObject({ status: 400, message: expect.stringContaining(where) });
  });

  it('refuses deep nesting and accepts what stays within the limit', () => {
    expect(failure(() => body('['.repeat(100_000)).json())).toMatchObject({
      status: 400,
      message: expect.stringContaining('512'),
    });
    expect(failure(() => body('{"a":'.repeat(600) + '1' + '}'.repeat(600)).json())).toMatchObject({
      message: expect.stringContaining('512'),
    });
    expect(failure(() => body('['.repeat(513) + ']'.repeat(513)).json())).toMatchObject({
      message: expect.stringContaining('512'),
    });
    expect(body('['.repeat(512) + ']'.repeat(512)).json()).toBeInstanceOf(Array);
  });

  it('does not count brackets inside strings', () => {
    const value = { a: '['.repeat(2000), b: `\\"${'{'.repeat(2000)}` };
    expect(body(JSON.stringify(value)).json()).toEqual(value);
    expect(body(JSON.stringify(Array.from({ length: 1000 }, () => [1]))).json()).toHaveLength(1000);
  });
});

describe('schema', () => {
  const schema: StandardSchema<{ n: number }> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value) => {
        const { n } = value as { n: unknown };
        return typeof n === 'number'
          ? { value: { n: n * 2 } }
          : { issues: [{ message: 'expected a number', path: ['items', { key: 0 }, 'n'] }] };
      },
    },
  };

  it('gives the value of the schema', async () => {
    await expect(body('{"n":2}').json(schema)).resolves.toEqual({ n: 4 });
  });

  it('names the path of what it refuses, as a rejection', async () => {
    await expect(body('{"n":"2"}').json(schema)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('items[0].n: expected a number'),
    });
    await expect(body('{').json(schema)).rejects.toMatchObject({ status: 400 });
  });
});

describe('multipart', () => {
  const type = { 'Content-Type': 'multipart/form-data; boundary=b' };
  const part = (head: string, content: string) => `--b\r\n${head}\r\n\r\n${content}\r\n`;
  const file = part('Content-Disposition: form-data; name="file"; filename="a.jpg"', 'JPEG');
  const data = part('content-disposition: form-data; name=data\r\nContent-Type: Application/JSON; charset=utf-8', '{"a":1}');
  const end = '--b--\r\n';

  it('sees every part with name, file name and type', () => {
    const request = body(
      `preamble\r\n${file}${data}${part('Content-Disposition: form-data; name="empty"', '')}${end}epilogue`,
      type,
    );
    expect(request.parts()).toMatchObject([
      { name: 'file', filename: 'a.jpg', contentType: 'application/octet-stream', data: Buffer.from('JPEG') },
      { name: 'data', filename: undefined, contentType: 'application/json', data: Buffer.from('{"a":1}') },
      { name: 'empty', filename: undefined, contentType: undefined, data: Buffer.alloc(0) },
    ]);
    expect(request.json()).toEqual({ a: 1 });
  });

  it('takes the part data, else body, else the first as the body', () => {
    const named = (name: string) => part(`Content-Disposition: form-data; name="${name}"`, name);
    expect(body(named('x') + named('body') + named('data') + end, type).text()).toBe('data');
    expect(body(named('x') + named('body') + end, type).text()).toBe('body');
    expect(body(named('x') + named('y') + end, type).text()).toBe('x');
    expect(body(end, type).body()).toHaveLength(0);
  });

  it('gives the last part of a name, and all through parts()', () => {
    const twice = body(
      part('Content-Disposition: form-data; name="a"', '1') + part('Content-Disposition: form-data; name="a"', '2') + end,
      type,
    );
    expect(Buffer.from(twice.part('a')!.data).toString()).toBe('2');
    expect(twice.parts()).toHaveLength(2);
    expect(twice.part('b')).toBeUndefined();
  });

  it('reads file names with any letters and without folders', () => {
    const named = (parameters: string) =>
      body(part(`Content-Disposition: form-data; name="f"; ${parameters}`, '') + end, type).part('f')!.filename;
    expect(named(`filename="x"; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt`)).toBe('naïve €.txt');
    expect(named(`filename*=iso-8859-1'en'na%EFve.txt`)).toBe('naïve.txt');
    expect(named('filename="naïve.txt"')).toBe('naïve.txt');
    expect(named(String.raw`filename="a\"b;c.txt"`)).toBe('a"b;c.txt');
    expect(named(String.raw`filename="C:\dir\a.txt"`)).toBe('a.txt');
    expect(named('filename="../../etc/passwd"')).toBe('passwd');
  });

  it('reads a quoted boundary with odd characters', () => {
    const content = '--a b:c\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--a b:c--';
    expect(body(content, { 'content-type': 'Multipart/Form-Data; charset=utf-8; Boundary="a b:c"' }).text()).toBe('1');
  });

  it('keeps content that looks like a boundary, or ends in line breaks', () => {
    const tricky = 'x\r\n--bb\r\n--b-\r\n\r\n';
    expect(body(part('Content-Disposition: form-data; name="x"', tricky) + end, type).text()).toBe(tricky);
  });

  it('is byte exact', () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    const content = Buffer.concat([
      Buffer.from('--b\r\nContent-Disposition: form-data; name="x"; filename="f"\r\n\r\n'),
      bytes,
      Buffer.from(`\r\n${end}`),
    ]);
    expect(Buffer.from(body(content, type).body())).toEqual(bytes);
  });

  it.each([
    ['no boundary in the header', file + end, 'multipart/form-data', 'no boundary'],
    ['another boundary', file + end, 'multipart/form-data; boundary=zzz', 'does not occur'],
    ['no closing boundary', file, undefined, 'part 1'],
    ['a cut in a header', '--b\r\nContent-Dispo', undefined, 'part 1'],
    ['a cut in the second part', file + data.slice(0, -9), undefined, 'part 2'],
    ['a part without a name', part('Content-Disposition: form-data', 'x') + end, undefined, 'name'],
    ['a part without headers', `--b\r\n\r\nx\r\n${end}`, undefined, 'content-disposition'],
    ['a header line without a colon', part('nonsense', 'x') + end, undefined, 'header line'],
    [
      'a transfer encoding',
      part('Content-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64', 'eA==') + end,
      undefined,
      'base64',
    ],
    [
      'endless headers',
      part(`X: ${'y'.repeat(20_000)}\r\nContent-Disposition: form-data; name="x"`, 'x') + end,
      undefined,
      '16384',
    ],
    ['an empty body', '', undefined, 'does not occur'],
  ])('answers %s with 400', (_, content, contentType, why) => {
    const request = body(content, contentType === undefined ? type : { 'content-type': contentType });
    expect(failure(() => request.body())).toMatchObject({ status: 400, message: expect.stringContaining(why) });
  });

  it('limits the number of parts', () => {
    const many = part('Content-Disposition: form-data; name="x"', '');
    expect(body(many.repeat(1000) + end, type).parts()).toHaveLength(1000);
    expect(failure(() => body(many.repeat(1001) + end, type).parts())).toMatchObject({
      status: 413,
      message: expect.stringContaining('1000'),
    });
  });
});

describe('forms', () => {
  const type = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' };

  it('gives the fields as parts', () => {
    const request = body('b=a+b%26&data=%7B%22a%22%3A1%7D&flag&%C3%A9=%FF', type);
    expect(request.parts().map(({ name, data }) => [name, Buffer.from(data).toString('latin1')])).toEqual([
      ['b', 'a b&'],
      ['data', '{"a":1}'],
      ['flag', ''],
      ['é', '\xff'],
    ]);
    expect(request.json()).toEqual({ a: 1 });
    expect(body('', type).parts()).toEqual([]);
  });

  it('refuses a bad percent sign, and too many fields', () => {
    expect(failure(() => body('a=%zz', type).parts())).toMatchObject({ status: 400, message: expect.stringContaining('%zz') });
    expect(failure(() => body('a=%4', type).parts()).status).toBe(400);
    expect(failure(() => body('a&'.repeat(1001), type).parts()).status).toBe(413);
  });
});

describe('named inputs', () => {
  const named = (parts: ReadonlyArray<readonly [string, number]>, bytes: string, more = {}) =>
    createRequest({
      id: 'r',
      kind: 'predict',
      rawHeaders: ['content-type', 'application/json', 'content-encoding', 'gzip'],
      urlPath: '',
      query: [],
      body: Buffer.from(bytes),
      parts,
      signal: new AbortController().signal,
      ...more,
    });

  it('are parts, and nothing of them is decoded', () => {
    const request = named(
      [
        ['a', 2],
        ['empty', 0],
        ['data', 3],
      ],
      'xy[1]',
    );
    const parts = request.parts().map(({ name, data, contentType }) => [name, Buffer.from(data).toString(), contentType]);
    expect(parts).toEqual([
      ['a', 'xy', undefined],
      ['empty', '', undefined],
      ['data', '[1]', undefined],
    ]);
    expect(Buffer.from(request.body()).toString()).toBe('[1]');
    expect(request.json()).toEqual([1]);
    expect(request.part('none')).toBeUndefined();
  });

  it('may be none at all', () => {
    const request = named([], '');
    expect([request.parts(), request.body().length, request.text()]).toEqual([[], 0, '']);
  });
});

it('gives any other body as one part', () => {
  const request = body('x', { 'content-type': 'image/png' });
  expect(request.parts()).toMatchObject([{ name: 'body', contentType: 'image/png', data: Buffer.from('x') }]);
  expect(request.text()).toBe('x');
});
