import { framed, methods, predictMessage } from '../proto.js';
import type { Random } from '../random.js';
import { talk } from '../talk.js';
import { type Target, Violation } from '../target.js';

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

function frame(type: number, flags: number, stream: number, payload: Uint8Array, length = payload.length): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length & 0xff_ffff, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

/** A header as HPACK writes it literally, in no table. */
function literal(name: string, value: string): Buffer {
  const text = (it: string) => {
    const bytes = Buffer.from(it, 'latin1');
    if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes]);
    const rest: number[] = [127];
    let left = bytes.length - 127;
    for (; left >= 128; left >>= 7) rest.push((left & 127) | 128);
    return Buffer.concat([Buffer.from([...rest, left]), bytes]);
  };
  return Buffer.concat([Buffer.of(0), text(name), text(value)]);
}

const headers = (path: string, more: ReadonlyArray<readonly [string, string]> = []): Buffer =>
  Buffer.concat(
    [
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', path],
      [':authority', 'a'],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      ...more,
    ].map(([name = '', value = '']) => literal(name, value)),
  );

const settings = frame(4, 0, 0, Buffer.alloc(0));
const call = (stream: number) =>
  Buffer.concat([frame(1, 4, stream, headers(methods.predict)), frame(0, 1, stream, framed(predictMessage))]);
const valid = Buffer.concat([preface, settings, call(1), call(3), frame(4, 1, 0, Buffer.alloc(0))]);

function anyFrame(random: Random): Buffer {
  const stream = random.pick([0, 1, 1, 3, 5, 2, 2 ** 31 - 1, 2 ** 31 + 1, random.int(0, 99)]);
  const flags = random.pick([0, 1, 4, 5, 8, 0x20, 0xff, random.int(0, 255)]);
  const word = () => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(random.pick([0, 1, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]));
    return bytes;
  };
  const setting = () => Buffer.concat([Buffer.of(0, random.int(0, 9)), word()]);
  return random.pick([
    () => call(stream),
    () => frame(1, 4, stream, headers(random.pick(Object.values(methods)))),
    () =>
      frame(
        1,
        flags,
        stream,
        headers('/x', [
          [
            random.pick(['A', '', ':path', 'connection', 'grpc-timeout', 'content-length', 'x']),
            random.pick(['', '\0', 'a'.repeat(9000), '-1', '99999999999S']),
          ],
        ]),
      ),
    () => frame(1, flags, stream, random.bytes(random.int(0, 40))),
    () => frame(9, flags, stream, random.bytes(random.int(0, 40))),
    () => frame(0, flags, stream, random.bytes(random.int(0, 40))),
    () => frame(0, 0, stream, framed(predictMessage, random.pick([0, 1, 2 ** 31, 2 ** 32 - 1]))),
    () => frame(2, flags, stream, random.bytes(random.pick([5, 5, 4, 6]))),
    () => frame(3, 0, stream, word()),
    () => Buffer.concat(Array.from({ length: random.pick([1, 1, 200]) }, () => frame(3, 0, stream, word()))),
    () => frame(4, flags, random.pick([0, 0, stream]), Buffer.concat(random.list(4, setting))),
    () => Buffer.concat(Array.from({ length: random.pick([1, 1, 300]) }, () => frame(6, flags & 1, 0, random.bytes(8)))),
    () => frame(6, 0, 0, random.bytes(random.int(0, 16))),
    () => frame(7, 0, 0, Buffer.concat([word(), word()])),
    () => frame(8, 0, random.pick([0, stream]), word()),
    () => frame(5, 4, stream, random.bytes(8)),
    () => frame(random.int(10, 255), flags, stream, random.bytes(random.int(0, 40))),
    () => frame(0, 0, stream, random.bytes(10), random.pick([0, 9, 11, 16_384, 16_385, 2 ** 24 - 1])),
  ])();
}

/** Connections of HTTP/2 as bytes: frames of every type, in any order, with any length. */
export const grpcFrames: Target = {
  name: 'grpc-frames',
  kind: 'wire',
  seeds: [valid],
  make(random) {
    const start = random.chance(0.95)
      ? preface
      : random.pick([preface.subarray(0, 10), Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'), random.bytes(24)]);
    const first = random.chance(0.9) ? settings : anyFrame(random);
    return Buffer.concat([start, first, ...random.list(8, () => anyFrame(random))]);
  },
  // After a broken frame the HTTP/2 layer sends GOAWAY and leaves the connection to the keepalive's timeout, so nobody waits for its end.
  async play(bytes, { open }) {
    const address = bytes.length % 4 === 0 ? open.grpcManagement : open.grpcInference;
    const { bytes: received, reset } = await talk(address, bytes, () => bytes.length % 7 === 0, 100);
    for (let at = 0; at < received.length;) {
      const whole = received.length - at >= 9 && received.length - at >= 9 + received.readUIntBE(at, 3);
      if (!whole) {
        if (reset || received.toString('latin1', at, at + 5) === 'HTTP/') return 'cut';
        throw new Violation(`the answer is no sequence of frames: ${received.subarray(at, at + 40).toString('hex')}`);
      }
      at += 9 + received.readUIntBE(at, 3);
    }
    return reset ? 'reset' : 'closed';
  },
};
