import { describe, expect, it } from 'vitest';
import { PredictionError } from '../errors.js';
import { audioTensor, decodeAudio, decodeWav, mono, resample } from './audio.js';

interface Wav {
  readonly tag?: number;
  readonly bits: number;
  readonly channels?: number;
  readonly rate?: number;
  readonly extensible?: boolean;
  readonly dataSize?: number;
}

/** A WAV file with an odd-sized chunk before the sound, as editors write. */
function wav(
  data: Buffer,
  { tag = 1, bits, channels = 1, rate = 16_000, extensible = false, dataSize = data.length }: Wav,
): Buffer {
  const format = Buffer.alloc(extensible ? 40 : 16);
  format.writeUInt16LE(extensible ? 0xfffe : tag, 0);
  format.writeUInt16LE(channels, 2);
  format.writeUInt32LE(rate, 4);
  format.writeUInt32LE((rate * channels * bits) / 8, 8);
  format.writeUInt16LE((channels * bits) / 8, 12);
  format.writeUInt16LE(bits, 14);
  if (extensible) {
    format.writeUInt16LE(22, 16);
    format.writeUInt16LE(tag, 24);
  }
  const chunk = (id: string, content: Buffer, size = content.length): Buffer => {
    const head = Buffer.alloc(8);
    head.write(id, 'latin1');
    head.writeUInt32LE(size, 4);
    return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
  };
  const chunks = Buffer.concat([chunk('fmt ', format), chunk('LIST', Buffer.from('odd')), chunk('data', data, dataSize)]);
  const head = Buffer.from('RIFF....WAVE', 'latin1');
  head.writeUInt32LE(chunks.length + 4, 4);
  return Buffer.concat([head, chunks]);
}

const int16 = (...values: number[]): Buffer => Buffer.from(Int16Array.from(values).buffer);

describe('decodeWav', () => {
  it.each<[string, Buffer, Wav]>([
    ['8 bits', Buffer.from([128, 192, 0]), { bits: 8 }],
    ['16 bits', int16(0, 16384, -32768), { bits: 16 }],
    ['24 bits', Buffer.from([0, 0, 0, 0, 0, 0x40, 0, 0, 0x80]), { bits: 24 }],
    ['32 bits', Buffer.from(Int32Array.of(0, 2 ** 30, -(2 ** 31)).buffer), { bits: 32 }],
    ['32-bit floats', Buffer.from(Float32Array.of(0, 0.5, -1).buffer), { bits: 32, tag: 3 }],
    ['64-bit floats', Buffer.from(Float64Array.of(0, 0.5, -1).buffer), { bits: 64, tag: 3 }],
    ['extensible', int16(0, 16384, -32768), { bits: 16, extensible: true }],
    ['extensible floats', Buffer.from(Float32Array.of(0, 0.5, -1).buffer), { bits: 32, tag: 3, extensible: true }],
  ])('reads %s', (_, data, format) => {
    const audio = decodeWav(wav(data, format));
    expect(audio.sampleRate).toBe(16_000);
    expect(audio.channels.map((it) => [...it])).toEqual([[0, 0.5, -1]]);
  });

  it('takes channels apart and mixes them', () => {
    const audio = decodeWav(wav(int16(16384, 0, -16384, 16384), { bits: 16, channels: 2 }));
    expect(audio.channels.map((it) => [...it])).toEqual([
      [0.5, -0.5],
      [0, 0.5],
    ]);
    expect([...mono(audio)]).toEqual([0.25, 0]);
  });

  it.each([0, 0xffff_ffff])('reads a stream whose length was left open as %i', (dataSize) => {
    expect(decodeWav(wav(int16(1, 2), { bits: 16, dataSize })).channels[0]).toHaveLength(2);
  });

  const whole = wav(int16(1, 2, 3, 4), { bits: 16 });
  it.each<[string, Buffer, number, string]>([
    ['nothing', Buffer.alloc(0), 400, 'empty'],
    ['another format', Buffer.from('ID3 not a wav file'), 400, 'not a WAV'],
    ['a cut file', whole.subarray(0, -2), 400, '6 of 8 bytes'],
    ['a cut header', whole.subarray(0, 30), 400, 'fmt'],
    ['no sound', whole.subarray(0, 12), 400, 'no "fmt "'],
    ['no data chunk', whole.subarray(0, 36), 400, 'no "data"'],
    ['a compressed encoding', wav(Buffer.alloc(4), { bits: 4, tag: 2 }), 415, 'encoding 2'],
    ['no channels', wav(Buffer.alloc(4), { bits: 16, channels: 0 }), 400, '0 channels'],
  ])('answers %s clearly', (_, bytes, status, why) => {
    expect(() => decodeWav(bytes)).toThrow(expect.objectContaining({ status, message: expect.stringContaining(why) }));
    expect(() => decodeWav(bytes)).toThrow(PredictionError);
  });
});

describe('decodeAudio', () => {
  it('gives one channel at the rate asked for', () => {
    const audio = decodeAudio(wav(int16(...Array.from({ length: 480 }, () => 16384)), { bits: 16, rate: 48_000 }), {
      sampleRate: 16_000,
    });
    expect(audio).toMatchObject({ sampleRate: 16_000 });
    expect(audio.samples).toHaveLength(160);
    expect(audio.samples[80]).toBeCloseTo(0.5, 5);
    expect(audioTensor(wav(int16(1, 2), { bits: 16 })).shape).toEqual([1, 2]);
  });

  it('refuses silence without length and sound that is too long', () => {
    expect(() => decodeAudio(wav(Buffer.alloc(0), { bits: 16 }))).toThrow(expect.objectContaining({ status: 400 }));
    const long = wav(Buffer.alloc(16_000 * 2 * 2), { bits: 16 });
    expect(() => decodeAudio(long, { maxSeconds: 1 })).toThrow(
      expect.objectContaining({ status: 413, message: expect.stringContaining('2.0 s') }),
    );
  });
});

describe('resample', () => {
  const tone = (hertz: number, rate: number, length: number): Float32Array =>
    Float32Array.from({ length }, (_, at) => Math.sin((2 * Math.PI * hertz * at) / rate));
  const worst = (a: Float32Array, b: Float32Array, skip: number): number => {
    let found = 0;
    for (let at = skip; at < a.length - skip; at++) found = Math.max(found, Math.abs(a[at]! - b[at]!));
    return found;
  };

  it.each([
    [44_100, 16_000],
    [8_000, 16_000],
    [48_000, 16_000],
    [11_025.5, 16_000],
  ])('keeps a tone from %d to %d', (from, to) => {
    const result = resample(tone(1000, from, from), from, to);
    expect(result).toHaveLength(Math.round((Math.floor(from) * to) / from));
    expect(worst(result, tone(1000, to, result.length), 200)).toBeLessThan(1e-3);
  });

  it('filters what the new rate cannot hold, which linear does not', () => {
    const high = tone(7_000, 48_000, 48_000);
    const peak = (values: Float32Array): number =>
      values.subarray(200, -200).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    expect(peak(resample(high, 48_000, 8_000))).toBeLessThan(1e-3);
    expect(peak(resample(high, 48_000, 8_000, 'linear'))).toBeGreaterThan(0.5);
  });

  it('keeps samples at the same rate, and interpolates linearly on demand', () => {
    const samples = Float32Array.of(0, 1, 2);
    expect(resample(samples, 8000, 8000)).toBe(samples);
    expect([...resample(samples, 1, 2, 'linear')]).toEqual([0, 0.5, 1, 1.5, 2, 2]);
    expect(() => resample(samples, 0, 8000)).toThrow('no sample rate');
  });
});
