import { describe, expect, it } from 'vitest';
import { BrokenFrameError, encodeFrame, type Frame, FrameReader } from './frames.js';

const bytes = (meta: unknown, ...blobs: Uint8Array[]) => Buffer.concat(encodeFrame(meta, blobs));
function collect(chunks: readonly Buffer[]): Array<{ meta: unknown; blob: string }> {
  const frames: Frame[] = [];
  const reader = new FrameReader((frame) => frames.push(frame));
  for (const chunk of chunks) reader.push(chunk);
  return frames.map(({ meta, blob }) => ({ meta, blob: blob.toString('latin1') }));
}

const stream = Buffer.concat([
  bytes({ type: 'é' }, Buffer.from('one'), Buffer.from('two')),
  bytes(null),
  bytes([1, 2], Buffer.alloc(0)),
  bytes({ last: true }, Buffer.from([0, 255, 10])),
]);
const frames = [
  { meta: { type: 'é' }, blob: 'onetwo' },
  { meta: null, blob: '' },
  { meta: [1, 2], blob: '' },
  { meta: { last: true }, blob: '\u0000\u00ff\n' },
];

describe('reading', () => {
  it('takes many frames in one chunk', () => {
    expect(collect([stream])).toEqual(frames);
  });

  it('is split anywhere', () => {
    for (let at = 0; at <= stream.length; at++) {
      expect(collect([stream.subarray(0, at), stream.subarray(at)])).toEqual(frames);
    }
  });

  it('is fed byte by byte', () => {
    expect(collect([...stream].map((byte) => Buffer.from([byte])))).toEqual(frames);
  });

  it('copies no frame that lies in one chunk', () => {
    const chunk = bytes({}, Buffer.from('blob'));
    const reader = new FrameReader(({ blob }) => expect(blob.buffer).toBe(chunk.buffer));
    reader.push(chunk);
    expect.assertions(1);
  });

  it('joins a large blob once, however many chunks it comes in', () => {
    const size = 64 * 1024 * 1024;
    const whole = bytes({ n: 1 }, Buffer.alloc(size, 7));
    let got: Frame | undefined;
    const reader = new FrameReader((frame) => (got = frame));
    let joined = 0;
    const concat = Buffer.concat.bind(Buffer);
    Buffer.concat = (list, length) => {
      joined += length ?? 0;
      return concat(list, length);
    };
    try {
      for (let at = 0; at < whole.length; at += 65_536) reader.push(whole.subarray(at, at + 65_536));
    } finally {
      Buffer.concat = concat;
    }
    expect(got?.blob.length).toBe(size);
    expect(got?.blob.every((byte) => byte === 7)).toBe(true);
    // Four bytes of the length may have come alone before.
    expect(joined).toBeLessThanOrEqual(whole.length + 65_536);
  });

  it.each([
    ['a length without a meta', Buffer.from([2, 0, 0, 0, 1, 1])],
    ['a meta longer than its frame', Buffer.from([6, 0, 0, 0, 255, 0, 0, 0, 1, 1])],
    ['a meta that is no JSON', Buffer.from([6, 0, 0, 0, 2, 0, 0, 0, 120, 120])],
  ])('refuses %s', (_, chunk) => {
    expect(() => collect([chunk])).toThrow(BrokenFrameError);
  });
});

describe('writing', () => {
  it('takes one piece for small blobs and does not copy large ones', () => {
    expect(encodeFrame({}, [Buffer.alloc(10)])).toHaveLength(1);
    const large = Buffer.alloc(100_000);
    const pieces = encodeFrame({}, [Buffer.alloc(0), large]);
    expect(pieces).toHaveLength(2);
    expect(pieces[1]).toBe(large);
  });
});
