import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readExternalData } from './external-data.js';

const models = fileURLToPath(new URL('../../../test/fixtures/models/', import.meta.url));
let work: string;
beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'external-'));
});
afterEach(() => rm(work, { recursive: true, force: true }));

async function read(bytes: Uint8Array) {
  await writeFile(join(work, 'm.onnx'), bytes);
  return await readExternalData(join(work, 'm.onnx'));
}

/** A protobuf field that holds bytes. */
function field(number: number, ...content: Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  const length: number[] = [];
  for (let rest = body.length; ; rest = Math.floor(rest / 128)) {
    length.push((rest % 128) | (rest >= 128 ? 128 : 0));
    if (rest < 128) break;
  }
  const tag = number * 8 + 2;
  return Buffer.concat([Buffer.from(tag < 128 ? [tag] : [(tag & 127) | 128, tag >> 7]), Buffer.from(length), body]);
}

const text = (number: number, value: string) => field(number, Buffer.from(value));
const pair = (key: string, value: string) => field(13, text(1, key), text(2, value));
const external = (...pairs: Buffer[]) => Buffer.concat(pairs);

it.each([
  ['external/model.onnx', 'weights.bin'],
  ['external-subfolder/model.onnx', 'data/weights.bin'],
])('%s keeps weights in %s', async (file, location) => {
  expect(await readExternalData(join(models, file))).toEqual([expect.objectContaining({ location })]);
});

it('models with everything inside have none', async () => {
  for (const name of (await readdir(models)).filter((file) => file.endsWith('.onnx'))) {
    expect(await readExternalData(join(models, name))).toEqual([]);
  }
});

it('initializers, constants of nodes, subgraphs, functions, far into a large file', async () => {
  const tensor = (name: string) => external(pair('location', name), pair('offset', '4096'), pair('length', '16'));
  const node = (name: string) => field(1, field(5, field(5, tensor(name))));
  const subgraph = field(1, field(5, field(6, field(5, tensor('sub')))));
  const filler = field(5, field(9, Buffer.alloc(300_000, 0xff)));
  const graph = field(7, field(5, tensor('init')), filler, node('constant'), filler, subgraph);
  const functions = field(25, field(7, field(5, field(5, tensor('function')))));
  const found = await read(Buffer.concat([graph, functions]));
  expect(found.map(({ location }) => location)).toEqual(['init', 'constant', 'sub', 'function']);
  expect(found[0]).toEqual({ location: 'init', offset: 4096, length: 16 });
});

it('what is no ONNX ends quietly', async () => {
  expect(await read(Buffer.alloc(0))).toEqual([]);
  expect(await read(Buffer.from('this is a text file, and a long one at that'))).toEqual([]);
  expect(await read(Buffer.alloc(100_000, 0xff))).toEqual([]);
  const whole = await readFile(join(models, 'external/model.onnx'));
  for (let length = 0; length < whole.length; length++) {
    expect((await read(whole.subarray(0, length))).length).toBeLessThanOrEqual(1);
  }
});
