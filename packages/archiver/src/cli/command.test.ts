import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runArchiveCommand } from './command.js';

const identity = fileURLToPath(new URL('../../../../test/fixtures/models/identity-fp32.onnx', import.meta.url));
let work: string;
beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'command-'));
});
afterEach(() => rm(work, { recursive: true, force: true }));

async function run(...args: string[]) {
  const out: string[] = [];
  const error: string[] = [];
  const code = await runArchiveCommand(args, { out: (line) => out.push(line), error: (line) => error.push(line) }, false);
  return { code, out: out.join('\n'), error: error.join('\n') };
}

it.each([
  ['default', 'm.mar'],
  ['zip-store', 'm.mar'],
  ['tgz', 'm.tar.gz'],
  ['no-archive', 'm'],
])('format %s writes %s and prints its path', async (format, name) => {
  const args = [
    '--model-name',
    'm',
    '-v',
    '1.0',
    '--serialized-file',
    identity,
    '--export-path',
    work,
    '--archive-format',
    format,
  ];
  expect(await run(...args)).toEqual({ code: 0, out: join(work, name), error: '' });
  expect(await readdir(work)).toEqual([name]);
  expect((await run(...args)).code).toBe(1);
  expect((await run(...args, '-f')).code).toBe(0);
});

it("takes every flag of TorchServe's archiver, and says so in its help", async () => {
  const { code, out } = await run('--help');
  expect(code).toBe(0);
  const flags = ['--model-name', '--handler', '-v, --version', '--serialized-file', '--model-file', '--extra-files', '--runtime'];
  const more = ['--export-path', '--archive-format', '-f, --force', '-r, --requirements-file', '-c, --config-file'];
  for (const flag of [...flags, ...more]) expect(out).toContain(flag);
  for (const value of ['python3', 'LSP', 'zip-store', 'no-archive', 'tgz']) expect(out).toContain(value);
});

it('wrong usage is 2, an archive that cannot be made is 1', async () => {
  expect(await run('-v', '1.0')).toMatchObject({ code: 2, error: expect.stringContaining('--model-name') });
  expect(await run('--nonsense')).toMatchObject({ code: 2 });
  expect(await run('--model-name', 'm', '-v', '1', '--archive-format', 'rar')).toMatchObject({ code: 2 });
  expect(await run('--model-name', 'm', '-v', '1', '--export-path', work, '--serialized-file', 'gone.onnx')).toMatchObject({
    code: 1,
    out: '',
    error: expect.stringContaining('gone.onnx'),
  });
});
