import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { acquireTempFolder, cleanStaleTemp } from './temp-space.js';

let temp: string;
beforeEach(async () => {
  temp = await mkdtemp(join(tmpdir(), 'ts-'));
});
afterEach(() => rm(temp, { recursive: true, force: true }));

it('folders of a process share a root, which goes with the last of them', async () => {
  const [first, second] = await Promise.all([acquireTempFolder(temp), acquireTempFolder(temp)]);
  expect(await readdir(temp)).toHaveLength(1);
  await writeFile(join(first.path, 'big.bin'), 'x');
  await first.remove();
  await first.remove();
  expect(await readdir(temp)).toHaveLength(1);
  await second.remove();
  expect(await readdir(temp)).toEqual([]);
});

it('many rounds leave nothing', async () => {
  for (let round = 0; round < 10; round++) {
    const folder = await acquireTempFolder(temp);
    await writeFile(join(folder.path, 'model.onnx'), 'x'.repeat(1000));
    await folder.remove();
  }
  expect(await readdir(temp)).toEqual([]);
});

it('cleaning leaves the own folders and other files alone', async () => {
  const folder = await acquireTempFolder(temp);
  await mkdir(join(temp, 'somebody-else'));
  expect(await cleanStaleTemp(temp)).toEqual([]);
  expect(await readdir(folder.path)).toEqual([]);
  await folder.remove();
  expect(await readdir(temp)).toEqual(['somebody-else']);
});

it('what a killed process left is removed, not what a running one holds', async () => {
  const root = join(temp, 'onnxserve-models-4242-abcdef');
  await mkdir(join(root, 'model'), { recursive: true });
  const holder = spawn(
    process.execPath,
    ['-e', `require('node:net').createServer().listen(process.argv[1], () => console.log('up'))`, join(root, 'lock')],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await once(holder.stdout, 'data');
  expect(await cleanStaleTemp(temp)).toEqual([]);
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  expect(await cleanStaleTemp(temp)).toEqual([root]);
  expect(await readdir(temp)).toEqual([]);
});

it('the process id decides where there is no lock; an own id of an earlier life is stale', async () => {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  const stale = [child.pid, process.pid].map((pid) => `onnxserve-models-${pid}-aaaa`);
  for (const name of [...stale, `onnxserve-models-${process.ppid}-aaaa`]) await mkdir(join(temp, name));
  expect((await cleanStaleTemp(temp)).sort()).toEqual(
    stale.map((name) => join(temp, name)).toSorted((left, right) => (left < right ? -1 : 1)),
  );
});

it('folders of another machine stay; those from before a reboot go', async () => {
  const owner = (host: string) => JSON.stringify({ pid: 1, host, boot: 'another' });
  await mkdir(join(temp, 'onnxserve-models-1-far'));
  await writeFile(join(temp, 'onnxserve-models-1-far', 'owner.json'), owner('elsewhere'));
  await mkdir(join(temp, 'onnxserve-models-1-old'));
  await writeFile(join(temp, 'onnxserve-models-1-old', 'owner.json'), owner(hostname()));
  expect(await cleanStaleTemp(temp)).toEqual([join(temp, 'onnxserve-models-1-old')]);
});

it('a temp directory that cannot be written is named, with the setting', async () => {
  await writeFile(join(temp, 'file'), '');
  await expect(acquireTempFolder(join(temp, 'file'))).rejects.toThrow(/temp_directory/);
  expect(await cleanStaleTemp(join(temp, 'nowhere'))).toEqual([]);
});
