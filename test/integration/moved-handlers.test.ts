import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AnyHandler, tensor } from '@onnxserve/handler-kit';
import { fakeSession, runHandler } from '@onnxserve/handler-kit/testing';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCommand } from '../helpers/command.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onnxserve-moved-'));
  cpSync(join(root, 'test/fixtures/torchserve/site'), join(folder, 'site'), { recursive: true });
  await runCommand(['check', '--from-torchserve', 'site', '--write', 'moved'], folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const load = async (model: string) =>
  ((await import(join(folder, `built/${model}/handler.js`))) as { default: AnyHandler }).default;
const picture = (red: number) =>
  sharp({ create: { width: 300, height: 260, channels: 3, background: { r: red, g: 0, b: 0 } } })
    .png()
    .toBuffer();

it('every handler that is written compiles under strict rules', () => {
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const compilerOptions = {
    rootDir: 'moved',
    outDir: 'built',
    typeRoots: [join(root, 'node_modules/@types')],
    noUnusedLocals: true,
  };
  const options = { extends: join(root, 'tsconfig.base.json'), compilerOptions, include: ['moved/**/*.ts'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(options));
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder], {
    encoding: 'utf8',
  });
  expect(stdout).toBe('');
  expect(status).toBe(0);
  const made = readdirSync(join(folder, 'built'));
  expect(made.sort()).toEqual(['bert', 'detector', 'digits', 'echo', 'pickled', 'program', 'say', 'texts']);
});

it('one that is not written says so in each answer', async () => {
  writeFileSync(join(folder, 'labels.json'), '[]');
  const results = await runHandler(await load('digits'), ['a', 'b'], { directory: folder });
  expect(results.map((result) => !result.ok && result.error.message)).toEqual([
    expect.stringContaining('preprocess of digits_handler.py is not written yet; the request has 1 bytes'),
    expect.stringContaining('preprocess of digits_handler.py is not written yet'),
  ]);
});

it('object_detector answers as it did', async () => {
  const session = fakeSession({
    inputs: [{ name: 'image', datatype: 'FP32', shape: [3, 'height', 'width'] }],
    outputs: [],
    run: ({ image }) => {
      expect(image?.shape).toEqual([3, 260, 300]);
      const red = (image!.data as Float32Array)[0] ?? 0;
      return {
        boxes: tensor('FP32', [2, 4], [1, 2, 3, 4, 5, 6, 7, 8]),
        labels: tensor('INT64', [2], [1n, 9n]),
        scores: tensor('FP32', [2], [red, 0.25]),
      };
    },
  });
  const [first, second] = await runHandler(await load('detector'), [await picture(255), await picture(0)], {
    session,
    directory: folder,
  });
  expect(first?.ok && first.json()).toEqual([{ '1': [1, 2, 3, 4], score: 1 }]);
  expect(second?.ok && second.json()).toEqual([]);
});

it('image_segmenter answers as it did', async () => {
  const session = fakeSession({
    inputs: [{ name: 'input', datatype: 'FP32', shape: ['batch', 3, 224, 224] }],
    outputs: [{ name: 'out', datatype: 'FP32', shape: ['batch', 2, 1, 2] }],
    run: () => ({ out: tensor('FP32', [1, 2, 1, 2], [0, 5, 0, 1]) }),
  });
  const [answer] = await runHandler(await load('pickled'), [await picture(9)], { session });
  const rows = answer?.ok ? answer.json<number[][][]>() : [];
  expect(rows).toHaveLength(1);
  expect(rows[0]?.map(([index]) => index)).toEqual([0, 0]);
  expect(rows[0]?.[0]?.[1]).toBeCloseTo(0.5);
  expect(rows[0]?.[1]?.[1]).toBeCloseTo(1 / (1 + Math.exp(-4)));
});

it('text_classifier answers as it did', async () => {
  writeFileSync(join(folder, 'source_vocab.json'), JSON.stringify({ '<unk>': 0, cafe: 1, good: 2, 'cafe good': 3 }));
  writeFileSync(join(folder, 'index_to_name.json'), JSON.stringify({ 0: 'no', 1: 'yes' }));
  const session = fakeSession({
    inputs: [{ name: 'tokens', datatype: 'INT64', shape: ['batch', 'n'] }],
    outputs: [{ name: 'scores', datatype: 'FP32', shape: ['batch', 2] }],
    run: ({ tokens }) => {
      expect([...(tokens!.data as BigInt64Array)]).toEqual([1n, 2n, 0n, 3n, 0n]);
      return { scores: tensor('FP32', [1, 2], [0, 0]) };
    },
  });
  const [answer] = await runHandler(await load('texts'), ['<b>Café</b>, good stuff!'], { session, directory: folder });
  expect(answer?.ok && answer.json()).toEqual({ no: 0.5, yes: 0.5 });
});
