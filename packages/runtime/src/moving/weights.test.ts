import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { unpack } from '../registry/unpack.js';
import { pickleGlobals } from './pickle-globals.js';
import { weightsOf } from './weights.js';

const store = fileURLToPath(new URL('../../../../test/fixtures/torchserve/site/model-store/', import.meta.url));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onnxserve-weights-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it.each([
  ['onnx_picture', 'fixed-1x3x8x8.onnx', { kind: 'onnx' }],
  ['script', 'script.pt', { kind: 'torchscript' }],
  ['digits', 'net.pth', { kind: 'state-dict' }],
  ['pickled', 'whole.pt', { kind: 'pickled-module', classes: ['net.Net'] }],
  ['program', 'program.pt2', { kind: 'exported-program' }],
  ['bert', 'model.safetensors', { kind: 'safetensors' }],
  ['native', 'libecho.so', { kind: 'compiled' }],
])('knows what torch wrote: %s', async (archive, file, expected) => {
  const target = await mkdtemp(join(folder, 'archive-'));
  await unpack(join(store, `${archive}.mar`), archive, target, { maxArchiveSize: 1e6, maxArchiveRatio: 1000 });
  expect(await weightsOf(join(target, file))).toEqual(expected);
});

it('knows files by their beginning, and says when one is damaged', async () => {
  const write = async (name: string, content: Buffer | string) => {
    await writeFile(join(folder, name), content);
    return await weightsOf(join(folder, name));
  };
  expect(await write('old.pt', Buffer.from('80028a0a6cfc9c46f9206aa850192e80024de9032e', 'hex'))).toEqual({ kind: 'state-dict' });
  expect(await write('model.h5', '')).toEqual({ kind: 'other', what: 'a Keras model' });
  expect(await write('empty.pt', '')).toMatchObject({ kind: 'other' });
  await expect(write('cut.pt', 'PK\u0003\u0004')).rejects.toMatchObject({ code: 'INVALID_MODEL' });
});

it('reads what pickles name without building anything', () => {
  // pickle.dumps(os.system, 4), pickle.dumps(collections.OrderedDict, 2) and one whose string looks like a name.
  const stackGlobal = Buffer.from('8004950f000000000000008c05706f736978948c0673797374656d9493942e', 'hex');
  const classic = Buffer.from('800263636f6c6c656374696f6e730a4f726465726564446963740a71002e', 'hex');
  const text = Buffer.from('\x80\x02X\x08\x00\x00\x00cfoo\nba\nq\x00.', 'latin1');
  expect(pickleGlobals(Buffer.concat([stackGlobal, classic, text]))).toEqual([
    ['posix', 'system'],
    ['collections', 'OrderedDict'],
  ]);
  for (const bytes of ['8004', '58ffffffff', '8dffffffffffffffff', '63', '93', 'ff'])
    expect(pickleGlobals(Buffer.from(bytes, 'hex')).length).toBeLessThan(2);
});
