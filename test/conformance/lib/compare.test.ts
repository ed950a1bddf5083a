import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { isHttp, readSetup, readSetups } from './cases.mjs';
import { httpDifference } from './compare-http.mjs';
import { jsonDifference } from './compare-json.mjs';
import { metricsDifference } from './compare-metrics.mjs';
import { parseAnswer } from './http-exchange.mjs';
import { requestBytes } from './http-request.mjs';
import { placeholders } from './placeholders.mjs';

const home = fileURLToPath(new URL('..', import.meta.url));
const same = (text: string) => text;

interface Recorded {
  readonly status?: number;
  readonly headers?: Array<[string, string]>;
  readonly body?: string;
  readonly body_b64?: string;
  readonly body_json?: unknown;
}

/** The recorded answer as if it had just come in. */
function recordedAnswer(response: Recorded) {
  const headers = Object.fromEntries((response.headers ?? []).map(([name, value]) => [name.toLowerCase(), [value]]));
  const text = response.body_json === undefined ? (response.body ?? '') : JSON.stringify(response.body_json);
  const body = response.body_b64 === undefined ? Buffer.from(text) : Buffer.from(response.body_b64, 'base64');
  return { status: Number(response.status), headers, body };
}

describe('every recorded HTTP exchange', () => {
  it.each(readSetups(join(home, 'torchserve')).map((setup) => [setup.name, setup] as const))(
    '%s agrees with itself',
    (_, setup) => {
      expect(setup.cases.length).toBeGreaterThan(0);
      for (const testCase of setup.cases) {
        if (!isHttp(testCase) || !testCase.response || testCase.unscored || testCase.response.error) continue;
        if (testCase.response.body_len !== undefined) continue; // recorded without its body
        expect([testCase.id, httpDifference(testCase, recordedAnswer(testCase.response), same)]).toEqual([
          testCase.id,
          undefined,
        ]);
      }
    },
  );
});

it('finds every setup of the tree', () => {
  const entries = readdirSync(join(home, 'torchserve'), { withFileTypes: true });
  const folders = entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])).sort();
  expect(readSetups(home).map(({ name }) => name)).toEqual(['kserve', 'triton', ...folders]);
});

it('reads from the first line what else was set', () => {
  const setup = readSetup(join(home, 'torchserve', 'H'));
  expect(setup.environment).toEqual({ TS_DEFAULT_STARTUP_TIMEOUT: '77', TS_ALLOWED_URLS: 'nothing', KIT_T: '21' });
  expect(setup.singlePort).toBe(false);
  expect(readSetup(join(home, 'torchserve', 'CORS')).singlePort).toBe(true);
});

describe('an answer', () => {
  const testCase = (response: Record<string, unknown>, more = {}) => ({
    id: 'x',
    group: 'g',
    request: { method: 'GET' },
    response,
    ...more,
  });
  const got = (status: number, body: string, headers: Record<string, string[]> = {}) => ({
    status,
    headers,
    body: Buffer.from(body),
  });

  it.each([
    ['another status', { status: 200 }, {}, got(404, ''), 'wanted status 200, got 404 '],
    ['an allowed status', { status: 500 }, { allow: [400, 500] }, got(400, 'ours'), undefined],
    ['another text', { status: 200, body: 'a' }, {}, got(200, 'b'), 'body: wanted "a", got "b"'],
    ['a missing header', { status: 200, headers: [['x-a', '1']] }, {}, got(200, ''), 'header x-a: wanted 1, got none'],
    [
      'another charset',
      { status: 200, headers: [['content-type', 'text/a; charset=b']] },
      {},
      got(200, '', { 'content-type': ['text/A'] }),
      undefined,
    ],
    ['no answer', { status: 200 }, {}, { error: 'ECONNRESET' }, 'no answer: ECONNRESET'],
    ['a refusal', { error: '<any>' }, {}, { error: 'ECONNREFUSED' }, undefined],
    ['an answer where a refusal was recorded', { error: '<any>' }, {}, got(200, ''), 'wanted a refusal (<any>), got 200'],
  ])('with %s', (_, response, more, answer, expected) => {
    expect(httpDifference(testCase(response, more), answer, same)).toBe(expected);
  });

  it('with a deviation needs its status only', () => {
    const recorded = testCase({ status: 200, body: 'a' });
    expect(httpDifference(recorded, got(400, 'b'), same, { status: 400, why: 'better' })).toBeUndefined();
    expect(httpDifference(recorded, got(500, 'b'), same, { status: 400, why: 'better' })).toContain('400');
  });
});

describe('JSON', () => {
  it.each([
    ['extra keys are welcome', { a: 1 }, { a: 1, b: 2 }, undefined],
    ['missing keys are not', { a: 1 }, {}, '$.a: missing'],
    ['lists have one length', [1], [1, 2], '$: wanted 1 items, got 2'],
    ['numbers match closely', { a: 1 }, { a: 1 + 1e-9 }, undefined],
    ['types differ', { a: '1' }, { a: 1 }, '$.a: wanted "1", got 1'],
    ['<any> is anything', { a: '<any>' }, { a: { b: 1 } }, undefined],
    ['<any> inside a text', 'http://<any>/x', 'http://host:1/x', undefined],
    ['sentences are free', { code: 404, type: 'T', message: 'm' }, { code: 404, type: 'T', message: 'other' }, undefined],
    ['but not empty', { error: 'm' }, { error: '' }, '$.error: wanted some text, got ""'],
  ])('%s', (_, want, answer, expected) => {
    expect(jsonDifference(want, answer)).toBe(expected);
  });
});

it('metrics must keep family, type and labels', () => {
  const want = '# TYPE A counter\nA{x="1",y="2",} 3.0\n';
  expect(metricsDifference(want, '# HELP A a\n# TYPE A counter\nA{y="0",x="5",z="1"} 9\n')).toBeUndefined();
  expect(metricsDifference(want, '# TYPE A gauge\nA{x="1",y="2"} 3\n')).toBe('metric A: wanted a counter, got a gauge');
  expect(metricsDifference(want, '# TYPE A counter\nA{x="1"} 3\n')).toBe('metric A: label y is missing');
  expect(metricsDifference(want, '')).toBe('metric family A is missing');
});

it('requests are sent as recorded', () => {
  const request = {
    method: 'POST',
    path: '/a?to=<files>',
    headers: { 'X-A': 'b' },
    chunked_body: ['hel', { repeat_char: 'o', count: 2 }],
  };
  const { fill } = placeholders({ '<files>': '1.2.3.4:5' });
  expect(requestBytes(request, 'h:1', fill).toString()).toBe(
    'POST /a?to=1.2.3.4:5 HTTP/1.1\r\nHost: h:1\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\noo\r\n0\r\n\r\n',
  );
});

it('answers are read whole, however they end', () => {
  const read = (text: string, closed = false) => parseAnswer(Buffer.from(text), 'GET', closed)?.body?.toString();
  expect(read('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab')).toBeUndefined();
  expect(read('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc')).toBe('abc');
  expect(read('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx')).toBe('x');
  expect(read('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n')).toBe('abc');
  expect(read('HTTP/1.1 200 OK\r\n\r\nall', true)).toBe('all');
});
