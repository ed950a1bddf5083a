import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { listStore } from './list-store.js';

it('lists archives, bare models and folders, and nothing else', async () => {
  const store = await mkdtemp(join(tmpdir(), 'list-store-'));
  try {
    for (const name of [
      'b.mar',
      'a-b.model',
      'c.tar.gz',
      'd.TGZ',
      'e.zip',
      'f.onnx',
      'f.onnx_data',
      'readme.txt',
      '.hidden.mar',
    ]) {
      await writeFile(join(store, name), '');
    }
    await mkdir(join(store, 'folder', 'MAR-INF'), { recursive: true });
    await mkdir(join(store, 'versions', '3'), { recursive: true });
    await writeFile(join(store, 'versions', '3', 'model.onnx'), '');
    await mkdir(join(store, 'logs', '2024'), { recursive: true });
    await mkdir(join(store, '.git'));
    await symlink('b.mar', join(store, 'linked.mar'));
    await symlink('nowhere', join(store, 'dangling.mar'));
    expect(await listStore(store)).toEqual([
      'a-b.model',
      'b.mar',
      'c.tar.gz',
      'd.TGZ',
      'e.zip',
      'f.onnx',
      'folder',
      'linked.mar',
      'versions',
    ]);
  } finally {
    await rm(store, { recursive: true, force: true });
  }
  await expect(listStore(store)).rejects.toThrow(store);
});
