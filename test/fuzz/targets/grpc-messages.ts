import { type ClientHttp2Session, connect } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { words } from '../boundaries.js';
import { mutate } from '../mutate.js';
import { field, framed, inferMessage, integer, message, methods, predictMessage } from '../proto.js';
import type { Random } from '../random.js';
import { type Target, Violation, within } from '../target.js';

const floats = Buffer.from(new Float32Array([1, 2, 3, 4]).buffer);
const seedsOf: Readonly<Record<keyof typeof methods, Buffer>> = {
  predict: predictMessage,
  stream: predictMessage,
  streams: predictMessage,
  ping: Buffer.alloc(0),
  infer: inferMessage([1, 4], floats),
  metadata: field(1, 'tensor'),
  health: field(1, 'echo'),
  describe: Buffer.concat([field(1, 'victim'), integer(3, 1n)]),
  list: Buffer.concat([integer(1, 1n), integer(2, 0n)]),
  register: Buffer.concat([integer(3, 0n), field(5, 'victim'), field(9, 'victim.mar')]),
  scale: Buffer.concat([field(1, 'victim'), integer(3, 1n), integer(4, 0n)]),
};

/** The path, a line for each piece of metadata, an empty line, then what the DATA frames carry. */
const written = (path: string, metadata: ReadonlyArray<readonly [string, string]>, data: Buffer) =>
  Buffer.concat([Buffer.from(`${path}\n${metadata.map(([name, value]) => `${name}: ${value}\n`).join('')}\n`), data]);

function data(random: Random, seed: Buffer): Buffer {
  const bytes = random.pick([
    () => seed,
    () => (seed.length > 0 ? mutate(seed, random) : message(random)),
    () => message(random),
    () => Buffer.concat([seed, message(random)]),
    () =>
      inferMessage(
        random.list(4, () => random.pick([0, 1, 4, -1, 2 ** 31])),
        random.bytes(random.int(0, 33)),
      ),
  ])();
  return random.pick([
    () => framed(bytes),
    () => framed(bytes),
    () => framed(bytes),
    () => framed(bytes, random.pick([0, bytes.length + 1, Math.max(0, bytes.length - 1), 2 ** 31, 2 ** 32 - 1])),
    () => framed(bytes, bytes.length, random.pick([1, 2, 255])),
    () => framed(gzipSync(bytes), undefined, 1),
    () => Buffer.concat([framed(bytes), framed(bytes)]),
    () => framed(bytes).subarray(0, random.int(0, 5 + bytes.length)),
    () => Buffer.alloc(0),
  ])();
}

const names = [
  'grpc-timeout',
  'grpc-encoding',
  'grpc-accept-encoding',
  'x-request-id',
  'protocol',
  'sequence_id',
  'a-bin',
  'traceparent',
  'authorization',
  'user-agent',
  'content-type',
  'te',
  'x',
];
const values = [
  '1S',
  '0S',
  '-1S',
  '99999999S',
  '999999999S',
  '1n',
  '1',
  'S',
  'gzip',
  'identity',
  'nothing',
  'deflate',
  'application/grpc+json',
  'text/html',
  '%%%',
  'AA==',
  ...words.slice(0, 30),
];

/** Sessions are shared, as clients do: what one call breaks would break its neighbours. */
const sessions = new Map<string, ClientHttp2Session>();
function sessionTo(address: string): ClientHttp2Session {
  const known = sessions.get(address);
  if (known !== undefined && !known.closed && !known.destroyed) return known;
  const session = connect(`http://${address}`);
  session.on('error', () => undefined); // its streams tell
  session.unref();
  sessions.set(address, session);
  return session;
}

interface Outcome {
  readonly http: number | undefined;
  readonly status: string | undefined;
  readonly text: string | undefined;
  readonly reset: number;
}

async function call(address: string, path: string, metadata: Readonly<Record<string, string>>, bytes: Buffer): Promise<Outcome> {
  return await new Promise((resolve) => {
    const stream = sessionTo(address).request(
      { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...metadata },
      { endStream: false },
    );
    let http: number | undefined;
    let told: Record<string, string | string[] | undefined> = {};
    stream.on('response', (answer) => {
      http = answer[':status'];
      told = { ...told, ...(answer as typeof told) };
    });
    stream.on('trailers', (trailers) => (told = { ...told, ...(trailers as typeof told) }));
    stream.on('error', () => undefined); // `close` follows
    stream.on('close', () => {
      const status = told['grpc-status'];
      const text = told['grpc-message'];
      resolve({
        http,
        status: status === undefined ? undefined : String(status),
        text: text === undefined ? undefined : String(text),
        reset: stream.rstCode ?? 0,
      });
    });
    stream.resume();
    stream.end(bytes);
  });
}

/** UNKNOWN, INTERNAL, DATA_LOSS: what says that the server is at fault. */
const faults = new Set(['2', '13', '15']);

export const grpcMessages: Target = {
  name: 'grpc-messages',
  kind: 'wire',
  share: 2,
  seeds: (Object.keys(methods) as Array<keyof typeof methods>).map((name) => written(methods[name], [], framed(seedsOf[name]))),
  make(random) {
    const name = random.pick(Object.keys(methods) as Array<keyof typeof methods>);
    const path = random.chance(0.9)
      ? methods[name]
      : random.pick([
          '/',
          '',
          '*',
          '/a/b',
          `${methods[name]}/x`,
          `${methods[name]}%00`,
          '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
        ]);
    const metadata = random.chance(0.5)
      ? []
      : random.list(4, () => [random.pick(names), random.pick(values).replaceAll('\n', '')] as const);
    return written(path, metadata, data(random, seedsOf[name]));
  },
  async play(input, { open }) {
    const border = input.indexOf('\n\n');
    const [path = '', ...lines] = input.toString('latin1', 0, border < 0 ? input.length : border).split('\n');
    const bytes = border < 0 ? Buffer.alloc(0) : input.subarray(border + 2);
    const metadata: Record<string, string> = {};
    for (const line of lines) {
      const [, name, value] = /^([a-z][a-z0-9_-]*): ([\x20-\x7e]*)$/.exec(line) ?? [];
      // Names of HTTP/1.1's hop-by-hop headers the client itself refuses.
      if (
        name !== undefined &&
        value !== undefined &&
        !/^(connection|upgrade|keep-alive|proxy-connection|transfer-encoding|host|http2-settings|content-length)$/.test(name) &&
        (name !== 'te' || value === 'trailers')
      )
        metadata[name] = value;
    }
    const address = path.includes('anagement') ? open.grpcManagement : open.grpcInference;
    const outcome = await within(call(address, path.replaceAll(/[^\x21-\x7e]/g, ''), metadata, bytes), 'a call');
    if (outcome.status !== undefined && faults.has(outcome.status))
      throw new Violation(`gRPC status ${outcome.status} for a client's mistake: ${outcome.text}`);
    if (outcome.status === undefined && (outcome.http ?? 0) >= 500) throw new Violation(`HTTP status ${outcome.http}`);
    if (
      outcome.status === undefined &&
      (outcome.http === undefined || outcome.http === 200) &&
      (outcome.reset === 0 || outcome.reset === 2)
    )
      throw new Violation(`a call ended without a status (HTTP ${outcome.http}, reset ${outcome.reset})`);
    return outcome.status ?? `HTTP ${outcome.http ?? 'none'}`;
  },
};
