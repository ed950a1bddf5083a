import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { words } from '../boundaries.js';
import { request } from '../http-grammar.js';
import { mutate } from '../mutate.js';
import type { Random } from '../random.js';
import { outcome, talkHttp } from '../talk.js';
import type { Target } from '../target.js';
import { deep, inferRequest, instances, json } from '../values.js';

type Body = { readonly bytes: Buffer; readonly type: string; readonly more?: ReadonlyArray<readonly [string, string]> };

function bodies(name: string, where: string, make: (random: Random) => Body): Target {
  return {
    name,
    kind: 'wire',
    make(random) {
      const { bytes, type, more = [] } = make(random);
      // Mutated inside its frame too: what follows the head is then still read as the body.
      return request(
        'POST',
        where,
        [['Content-Type', type], ...more],
        random.chance(0.3) && bytes.length > 0 ? mutate(bytes, random) : bytes,
      );
    },
    play: async (bytes, { open }) => outcome(await talkHttp(open.inference, bytes, { mustAnswer: false })),
  };
}

const jsonTypes = [
  'application/json',
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-16',
  'application/json; charset=nothing',
];
const utf16 = (text: string) => Buffer.from(`\uFEFF${text}`, 'utf16le');

function multipart(random: Random): Body {
  const boundary = random.pick(['b', 'b', 'b', 'a'.repeat(70), 'a'.repeat(5000), '--', ' ', "'()+_,-./:=?"]);
  const end = random.chance(0.9) ? '\r\n' : '\n';
  const part = () => {
    const name = random.pick(['data', 'body', '__proto__', '', ...words.slice(0, 40)]).slice(0, 200);
    const disposition = random.pick([
      `form-data; name="${name}"`,
      `form-data; name=${name}`,
      'form-data',
      `form-data; name="a"; filename="${name}"`,
      `form-data; name*=utf-8''%ff${name}`,
      'attachment',
      '',
    ]);
    const heads = [
      `Content-Disposition: ${disposition}`,
      random.pick([
        '',
        '',
        'Content-Type: application/json',
        'Content-Type: multipart/mixed; boundary=c',
        'Content-Transfer-Encoding: base64',
        `X: ${'h'.repeat(20_000)}`,
      ]),
    ];
    return `--${boundary}${random.pick(['', '', '', ' ', '\t', 'x'])}${end}${heads.filter((line) => line !== '').join(end)}${end}${end}${random.pick([...words.slice(0, 60), `--${boundary}`])}${end}`;
  };
  const parts = random.chance(0.02) ? part().repeat(1100) : random.list(6, part).join('');
  const type = random.pick([
    `multipart/form-data; boundary=${boundary}`,
    `multipart/form-data; boundary="${boundary}"`,
    'multipart/form-data',
    `multipart/form-data; boundary=`,
    `multipart/mixed; boundary=${boundary}`,
    `multipart/form-data; boundary=${boundary}; boundary=c`,
  ]);
  return {
    bytes: Buffer.from(
      `${random.pick(['', '', 'preamble\r\n'])}${parts}${random.pick([`--${boundary}--`, `--${boundary}--\r\n`, '', `--${boundary}`])}`,
    ),
    type,
  };
}

function form(random: Random): Body {
  const word = () =>
    random.chance(0.5) ? encodeURIComponent(random.pick(words).slice(0, 400)) : random.pick(words).slice(0, 400);
  const count = random.chance(0.02) ? 3000 : 6;
  const text = random
    .list(count, () => `${word()}${random.pick(['=', '=', '', '=='])}${word()}`)
    .join(random.pick(['&', '&', '&&', ';']));
  return {
    bytes: Buffer.from(text),
    type: random.pick([
      'application/x-www-form-urlencoded',
      'application/x-www-form-urlencoded; charset=latin1',
      'Application/X-WWW-Form-Urlencoded',
    ]),
  };
}

function compressed(random: Random): Body {
  const plain = random.pick([
    () => Buffer.from('{"a":1}'),
    () => Buffer.from(json(random)),
    () => Buffer.alloc(random.pick([0, 1, 999_999, 1_000_000, 1_000_001, 20_000_000]), 'a'),
    () => Buffer.from(deep(random)),
  ])();
  const [coding, pack] = random.pick([
    ['gzip', gzipSync],
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', (bytes: Buffer) => brotliCompressSync(bytes.subarray(0, 100_000))],
    ['identity', (bytes: Buffer) => bytes.subarray(0, 100_000)],
    ['zstd', (bytes: Buffer) => bytes.subarray(0, 100)],
  ] as ReadonlyArray<readonly [string, (bytes: Buffer) => Buffer]>);
  const once = pack(plain);
  const [bytes, told] = random.pick<() => readonly [Buffer, string]>([
    () => [once, coding],
    () => [once, coding],
    () => [once.subarray(0, random.int(0, once.length)), coding],
    () => [Buffer.concat([once, once]), coding],
    () => [Buffer.concat([once, random.bytes(9)]), coding],
    () => [gzipSync(once), `${coding}, gzip`],
    () => [once, `${coding}, ${coding}`],
    () => [once, `${coding}${', gzip'.repeat(random.int(1, 200))}`],
    () => [once, random.pick(['', 'GZIP', 'gzip;q=1', ',', 'gzip,', 'nothing'])],
  ])();
  return { bytes, type: random.pick(jsonTypes), more: [['Content-Encoding', told]] };
}

export const bodyTargets: readonly Target[] = [
  bodies('json', '/predictions/echo', (random) => {
    const text = random.chance(0.1) ? deep(random) : json(random, 6);
    const bytes = random.pick([
      () => Buffer.from(text),
      () => Buffer.from(text),
      () => Buffer.from(`\uFEFF${text}`),
      () => utf16(text),
      () => Buffer.from(text, 'latin1'),
    ])();
    return { bytes, type: random.pick(jsonTypes) };
  }),
  bodies('form', '/predictions/echo', form),
  bodies('multipart', '/predictions/echo', multipart),
  bodies('compressed', '/predictions/echo', compressed),
  bodies('v1', '/v1/models/tensor:predict', (random) => ({
    bytes: Buffer.from(instances(random)),
    type: random.pick(jsonTypes),
  })),
  bodies('v2', '/v2/models/tensor/infer', (random) => ({
    bytes: Buffer.from(inferRequest(random)),
    type: random.pick(['application/json', 'application/json', 'application/octet-stream', 'text/plain']),
    more: random.chance(0.1) ? [['Inference-Header-Content-Length', random.pick(['0', '1', '9999', '-1', 'x', '50'])]] : [],
  })),
  bodies('v2-strings', '/v2/models/text/infer', (random) => ({
    bytes: Buffer.from(inferRequest(random).replaceAll('"FP32"', '"BYTES"')),
    type: 'application/json',
  })),
];
