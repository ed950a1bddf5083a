import { numbers, words } from './boundaries.js';
import type { Random } from './random.js';

/** One HTTP/1.1 request as bytes, its length told truly. */
export function request(
  method: string,
  path: string,
  headers: ReadonlyArray<readonly [string, string]> = [],
  body?: Uint8Array | string,
): Buffer {
  const bytes = body === undefined ? undefined : Buffer.from(body as string);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: a',
    'Connection: close',
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(bytes === undefined ? [] : [`Content-Length: ${bytes.length}`]),
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes ?? Buffer.alloc(0)]);
}

const methods = [
  'GET',
  'POST',
  'PUT',
  'DELETE',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'TRACE',
  'CONNECT',
  'get',
  'PRI',
  'M-SEARCH',
  'X',
  '',
];
const lineEnds = ['\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\0\r\n'];
const versions = ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.11', 'http/1.1', 'HTTP/', ''];
const targets = [
  '/ping',
  '/predictions/echo',
  '/predictions/echo',
  '*',
  'http://a/ping',
  'http://[::1',
  '//ping',
  '',
  '?',
  'a:1',
  '/\u00ff',
];
const encodings = [
  'chunked',
  'Chunked',
  'chunked, chunked',
  'gzip, chunked',
  'chunked, gzip',
  'identity',
  ' chunked',
  '\tchunked',
  'xchunked',
  '"chunked"',
  '',
];

function chunked(random: Random): string {
  const size = () => {
    const length = random.int(0, 20);
    return random.pick([
      length.toString(16),
      length.toString(16),
      `0x${length}`,
      `${length} `,
      `-${length}`,
      `+${length}`,
      'fffffffff',
      '',
      'g',
      `0000000${length}`,
    ]);
  };
  const pieces = random.list(4, () => {
    const text = 'x'.repeat(random.int(0, 20));
    const honest = random.chance(0.7);
    const extension = random.pick(['', '', '', ';a=b', ';a="\r\n"', `;${'e'.repeat(20_000)}`]);
    return `${honest ? text.length.toString(16) : size()}${extension}${random.pick(lineEnds)}${text}${random.pick(lineEnds)}`;
  });
  return `${pieces.join('')}${random.pick(['0\r\n\r\n', '0\r\n\r\n', '0\r\nA: b\r\n\r\n', '0\r\n', '', '00\r\n\r\n', '0\r\nContent-Length: 5\r\n\r\n'])}`;
}

function header(random: Random, end: string): string {
  if (random.chance(0.5)) return `X-${random.int(0, 99)}: ${'a'.repeat(random.int(0, 30))}${end}`;
  const length = () => random.pick([...numbers, '3', '3', '3, 3', '3, 4', '3;', '3\u00a0']);
  const [name, value] = random.pick([
    () => ['Content-Length', length()],
    () => ['Content-Length', '3'],
    () => ['Transfer-Encoding', random.pick(encodings)],
    () => ['Transfer-Encoding', 'chunked'],
    () => ['Transfer-Encoding ', 'chunked'],
    () => [' Transfer-Encoding', 'chunked'],
    () => ['Content-Length\0', '3'],
    () => ['Content_Length', '9'],
    () => ['Connection', random.pick(['close', 'keep-alive', 'upgrade', 'close, keep-alive', 'content-length', 'te'])],
    () => ['Upgrade', random.pick(['h2c', 'websocket', 'HTTP/2.0'])],
    () => ['HTTP2-Settings', 'AAMAAABkAAQAAP__'],
    () => ['Expect', random.pick(['100-continue', '100-Continue', '200-ok', ''])],
    () => ['Host', random.pick(['a', '', 'a, b', 'a:99999', '[::1]', ' '])],
    () => ['Content-Type', random.pick(['application/json', 'text/plain', 'multipart/form-data', ';', 'a/b; charset=\u00ff'])],
    () => ['X-Request-Id', random.pick(words).slice(0, 300)],
    () => [random.pick(words).slice(0, 300), random.pick(words).slice(0, 9000)],
    () => ['X', 'a'.repeat(random.int(1, 40_000))],
    () => ['Cookie', 'a=b; '.repeat(random.int(1, 500))],
  ])() as [string, string];
  const fold = random.chance(0.08) ? `${end} folded` : '';
  return `${name}${random.pick([': ', ':', ': ', ' : ', ''])}${value}${fold}${end}`;
}

/** What a connection may carry: one request or several, framed rightly, wrongly, or twice. */
export function framing(random: Random): Buffer {
  const requests = Array.from({ length: random.pick([1, 1, 1, 2, 3, 8]) }, () => {
    const end = random.chance(0.8) ? '\r\n' : random.pick(lineEnds);
    const method = random.chance(0.7) ? random.pick(['GET', 'POST']) : random.pick(methods);
    const path = random.chance(0.8) ? '/predictions/echo' : random.pick([...targets, `/${'a'.repeat(random.int(1, 40_000))}`]);
    const line = `${method}${random.pick([' ', ' ', ' ', '  ', '\t'])}${path} ${random.pick(versions)}${end}`;
    const many = random.chance(0.02) ? 3000 : random.int(0, 5);
    const headers = Array.from({ length: many }, () =>
      many > 100 ? `A${random.int(0, 9999)}: b${end}` : header(random, end),
    ).join('');
    const body = random.pick([
      () => '',
      () => 'abc',
      () => chunked(random),
      () => chunked(random),
      () => 'x'.repeat(random.int(0, 5000)),
    ])();
    return `${line}${headers}${end}${body}`;
  });
  // Latin-1 where every character is a byte, else UTF-8, as a client would send it.
  const text = requests.join('');
  return Buffer.from(text, /^[\0-\u00ff]*$/.test(text) ? 'latin1' : 'utf8');
}

const segments = [
  'predictions',
  'explanations',
  'models',
  'v1',
  'v2',
  'health',
  'ready',
  'live',
  'infer',
  'predict',
  'explain',
  'versions',
  'invocations',
  'ping',
  'metrics',
  'workflows',
  'wfpredict',
  'api-description',
  'logging',
  'token',
  'echo',
  'tensor',
  'echo:predict',
  '1.0',
  '',
  '.',
  '..',
  'nobody',
];
const escapes = [
  '%2f',
  '%2F',
  '%00',
  '%',
  '%zz',
  '%c0%af',
  '%ff',
  '%25',
  '%0d%0a',
  '+',
  ';a=b',
  '%e2%82%ac',
  '%ed%a0%80',
  '"',
  '<',
  '{',
  '|',
  '\\',
  '^',
  '~',
  '@',
  ':',
];

function segment(random: Random): string {
  const text = random.chance(0.85) ? random.pick(segments) : encodeURIComponent(random.pick(words).slice(0, 200));
  return random.chance(0.2) ? `${text}${random.pick(escapes)}` : text;
}

export function query(random: Random, names: readonly string[]): string {
  if (random.chance(0.2)) return '';
  const value = () =>
    random.pick([
      () => random.pick(numbers),
      () => encodeURIComponent(random.pick(words).slice(0, 400)),
      () => random.pick(escapes),
      () => 'true',
    ])();
  const pairs = random.list(
    6,
    () =>
      `${random.chance(0.8) ? random.pick(names) : encodeURIComponent(random.pick(words).slice(0, 50))}${random.pick(['=', '=', '=', '', '=='])}${value()}`,
  );
  return `${random.pick(['?', '?', '?', '??', '?&', '#'])}${pairs.join(random.pick(['&', '&', '&', ';', '&&']))}`.replaceAll(
    ' ',
    '%20',
  );
}

export function path(random: Random, names: readonly string[]): string {
  const known = [
    '/predictions/echo',
    '/predictions/echo/1.0',
    '/v2/models/tensor/infer',
    '/v1/models/echo:predict',
    '/models/echo/invoke',
    '/ping',
    '/metrics',
  ];
  const body = random.chance(0.4)
    ? random.pick(known)
    : random.list(7, () => `${random.chance(0.95) ? '/' : '//'}${segment(random)}`).join('');
  return `${body === '' ? '/' : body}${query(random, names)}`;
}
