import { numbers, tokens } from './boundaries.js';
import type { Random } from './random.js';

type Mutation = (bytes: Buffer, random: Random) => Buffer;

function range(bytes: Buffer, random: Random, most = 64): readonly [number, number] {
  const start = random.int(0, bytes.length);
  return [start, Math.min(bytes.length, start + random.int(1, most))];
}
const splice = (bytes: Buffer, start: number, end: number, put: Uint8Array) =>
  Buffer.concat([bytes.subarray(0, start), put, bytes.subarray(end)]);

const mutations: readonly Mutation[] = [
  function flipBit(bytes, random) {
    const copy = Buffer.from(bytes);
    const at = random.int(0, copy.length - 1);
    copy[at] = (copy[at] ?? 0) ^ (1 << random.int(0, 7));
    return copy;
  },
  function edgeByte(bytes, random) {
    const copy = Buffer.from(bytes);
    copy[random.int(0, copy.length - 1)] = random.pick([0, 1, 9, 10, 13, 32, 34, 37, 127, 128, 192, 254, 255]);
    return copy;
  },
  function edgeWord(bytes, random) {
    if (bytes.length < 4) return bytes;
    const copy = Buffer.from(bytes);
    const value = random.pick([0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff, 0xff00]);
    const at = random.int(0, copy.length - 4);
    if (random.chance(0.5)) copy.writeUInt32LE(value, at);
    else copy.writeUInt32BE(value, at);
    return copy;
  },
  (bytes, random) => splice(bytes, ...range(bytes, random), Buffer.alloc(0)),
  (bytes, random) => {
    const [start, end] = range(bytes, random, 200);
    return splice(bytes, end, end, bytes.subarray(start, end));
  },
  (bytes, random) => {
    const at = random.int(0, bytes.length);
    return splice(bytes, at, at, random.pick(tokens));
  },
  (bytes, random) => splice(bytes, ...range(bytes, random, 8), random.pick(tokens)),
  (bytes, random) => {
    const at = random.int(0, bytes.length);
    return splice(bytes, at, at, random.bytes(random.int(1, 16)));
  },
  (bytes, random) => bytes.subarray(0, random.int(0, bytes.length)),
  function otherNumber(bytes, random) {
    const found = [...bytes.toString('latin1').matchAll(/\d+/g)];
    if (found.length === 0) return bytes;
    const { index, 0: digits } = random.pick(found);
    return splice(bytes, index, index + digits.length, Buffer.from(random.pick(numbers)));
  },
  function swapLines(bytes, random) {
    const lines = bytes.toString('latin1').split('\n');
    const line = random.pick(lines);
    lines.splice(random.int(0, lines.length), random.int(0, 1), line);
    return Buffer.from(lines.join('\n'), 'latin1');
  },
];

/** A seed with one to four things changed in it; never empty. */
export function mutate(seed: Uint8Array, random: Random): Buffer {
  let bytes: Buffer = Buffer.from(seed);
  for (let left = random.int(1, 4); left > 0 && bytes.length > 0; left--) bytes = random.pick(mutations)(bytes, random);
  return bytes.length === 0 ? random.bytes(1) : bytes;
}
