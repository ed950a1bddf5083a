import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ModelOptions, realSession, runHandler, type TestResult } from '@onnxserve/handler-kit/testing';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import handler from './handler.js';
import { inkCells } from './ink.js';

interface Fixture {
  readonly file: string;
  readonly label: string;
  readonly ink: string;
  readonly tensor: number[];
  readonly probabilities: number[];
}
type Answer = Array<{ label: string; probability: number }>;

const at = (...names: string[]) => join(import.meta.dirname, ...names);
const fixtures = JSON.parse(readFileSync(at('reference', 'fixtures.json'), 'utf8')) as Fixture[];
const sample = (name: string) => readFileSync(at('samples', name));

let options: ModelOptions;
beforeAll(async () => {
  options = { directory: at('model'), session: await realSession(at('model', 'digits.onnx')), config: { topK: 10 } };
});

function answer(result: TestResult | undefined): Answer {
  if (result?.ok !== true) throw result?.error ?? new Error('no result');
  return result.json<Answer>();
}

describe('digits', () => {
  it('gives the probabilities of the Python reference', async () => {
    const results = await runHandler(
      handler,
      fixtures.map(({ file }) => sample(file)),
      options,
    );
    for (const [index, { label, ink, probabilities }] of fixtures.entries()) {
      const got = answer(results[index]);
      expect(got[0]!.label).toBe(label);
      expect(got).toHaveLength(10);
      for (const { label: name, probability } of got) expect(probability).toBeCloseTo(probabilities[Number(name)]!, 4);
      expect(results[index]).toMatchObject({ status: 200, headers: { 'x-digit-ink': ink } });
    }
  });

  it('prepares pictures as the Python reference does', async () => {
    for (const { file, tensor, ink } of fixtures) {
      const { data, info } = await sharp(sample(file)).greyscale().raw().toBuffer({ resolveWithObject: true });
      const prepared = inkCells({ width: info.width, height: info.height, data });
      expect(prepared?.ink).toBe(ink);
      for (const [index, value] of prepared!.cells.entries()) expect(value).toBeCloseTo(tensor[index]!, 4);
    }
  });

  it('reads every size and format, with transparency and off its centre', async () => {
    const seven = sample('7.png');
    const mask = await sharp(seven).toColourspace('b-w').raw().toBuffer({ resolveWithObject: true });
    const black = { create: { ...mask.info, channels: 3, background: 'black' } } as const;
    const transparent = sharp(black).joinChannel(mask.data, { raw: { ...mask.info, channels: 1 } });
    const pictures = await Promise.all([
      sharp(seven).resize(1500, 1500).jpeg().toBuffer(),
      sharp(seven).resize(20, 20).webp().toBuffer(),
      sharp(seven).extend({ left: 300, bottom: 120, background: 'black' }).tiff().toBuffer(),
      sharp(seven).negate({ alpha: false }).gif().toBuffer(),
      transparent.png().toBuffer(),
    ]);
    const results = await runHandler(handler, pictures, options);
    expect(results.map((result) => answer(result)[0]!.label)).toEqual(['7', '7', '7', '7', '7']);
  });

  it('answers as many labels as the configuration says, most probable first', async () => {
    const [result] = await runHandler(handler, [sample('7.png')], { ...options, config: { topK: 2 } });
    const [first, second, ...rest] = answer(result);
    expect(rest).toEqual([]);
    expect(first!.probability).toBeGreaterThan(second!.probability);
  });

  it('refuses what it cannot read and still answers the rest of the batch', async () => {
    const blank = await sharp({ create: { width: 30, height: 30, channels: 3, background: '#888' } })
      .png()
      .toBuffer();
    const good = [sample('3.png'), sample('4.png')];
    const alone = await runHandler(handler, good, { ...options, batchSize: 1 });
    const mixed = await runHandler(handler, [good[0]!, 'no picture', blank, '', good[1]!], options);
    expect(mixed.slice(1, 4)).toMatchObject([
      { status: 400, error: { message: expect.stringContaining('no picture') as string } },
      { status: 400, error: { message: expect.stringContaining('stands out') as string } },
      { status: 400, error: { message: expect.stringContaining('empty') as string } },
    ]);
    for (const [index, result] of [mixed[0], mixed[4]].entries()) {
      const expected = answer(alone[index]);
      for (const [place, { label, probability }] of answer(result).entries()) {
        expect(label).toBe(expected[place]!.label);
        expect(probability).toBeCloseTo(expected[place]!.probability, 6);
      }
    }
  });
});
