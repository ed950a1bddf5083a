import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resolveHandler } from './handler-spec.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'handler-'));
  await mkdir(join(root, 'sub'));
  for (const file of ['h.js', 'm.mjs', 'sub/s.js', 'both.py', 'both.js', 'second.py', 'second.mjs', 'only.py', 't.ts']) {
    await writeFile(join(root, file), '');
  }
});
afterEach(() => rm(root, { recursive: true, force: true }));

const resolve = (text: string) => resolveHandler(root, text, 'field "model.handler"');

describe('modules', () => {
  it.each([
    ['h.js', 'h.js', 'default'],
    ['h.js:run', 'h.js', 'run'],
    ['h.js:', 'h.js', 'default'],
    ['m.mjs', 'm.mjs', 'default'],
    ['sub/s.js', 'sub/s.js', 'default'],
    ['src/elsewhere/h.js', 'h.js', 'default'],
    ['h', 'h.js', 'default'],
    ['h:run', 'h.js', 'run'],
    ['both.py', 'both.js', 'default'],
    ['both.py:handle', 'both.js', 'default'],
    ['second.py', 'second.mjs', 'default'],
    ['both', 'both.js', 'default'],
  ])('%s is %s, export %s', async (text, file, exportName) => {
    expect(await resolve(text)).toEqual({ kind: 'module', file: join(root, file), exportName });
  });
});

it('the tensor handler has no code', async () => {
  expect(await resolve('tensor')).toEqual({ kind: 'tensor' });
});

it.each([
  ['gone.js', '"gone.js", which is not in the archive'],
  ['only.py', '"only.py", a Python handler'],
  ['only', '"only.py", a Python handler'],
  ['only.py:handle', 'docs/migration.md'],
  ['t.ts', 'onnxserve archive --handler t.ts'],
  ['no_such_handler', 'nor a bundled handler'],
  ['', 'nor a bundled handler'],
  ['../h.js', 'no path inside the archive'],
  ['/etc/h.js', 'no path inside the archive'],
])('%j is refused: %s', async (text, says) => {
  await expect(resolve(text)).rejects.toMatchObject({ code: 'INVALID_MODEL', message: expect.stringContaining(says) });
});
