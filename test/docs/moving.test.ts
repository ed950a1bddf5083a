import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCommand } from '../helpers/command.js';
import { blocks, commands, page, root } from './markdown.js';

const guide = page('docs/migration.md');
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'onnxserve-guide-'));
  cpSync(join(root, 'test/fixtures/torchserve/site'), join(folder, 'torchserve'), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('the commands of the moving guide do what it says, one after the other', async () => {
  const shell = blocks(guide).filter(({ language }) => language === 'sh');
  const lines = shell.flatMap((block) => commands(block));
  expect(lines).toHaveLength(3);
  const results: Array<{ code: number | null; stdout: string }> = [];
  for (const line of lines) {
    const [npx, program, ...args] = line.replace('/path/to/torchserve', 'torchserve').split(' ');
    expect([npx, program]).toEqual(['npx', 'onnxserve']);
    results.push(await runCommand(args, folder));
  }
  expect(results.map(({ code }) => code)).toEqual([3, 3, 0]);
  for (const shown of blocks(guide)
    .find(({ code }) => code.includes('✓ onnx_picture.mar'))!
    .code.trimEnd()
    .split('\n'))
    expect(results[0]?.stdout).toContain(shown);
  expect(results[1]?.stdout).toContain(lines[2]!.replace('npx ', ''));
  for (const file of ['digits/export.py', 'digits/handler.ts', 'model-store/echo.mar'])
    expect(existsSync(join(folder, 'moved', file))).toBe(true);
});
