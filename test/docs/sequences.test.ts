import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from '@onnxserve/handler-kit/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { post, send } from '../helpers/client.js';
import { startServer } from '../helpers/server.js';
import { type CompiledBlocks, compileBlocks } from './compiled-blocks.js';
import { blocks, commands, page, root } from './markdown.js';

let guide: CompiledBlocks;
beforeAll(() => {
  guide = compileBlocks('docs/sequences.md');
});
afterAll(() => guide.remove());

it('the handlers of the page run in memory', async () => {
  const said = (value: unknown, id: string, marks = {}) => request({ json: { value }, sequence: { id, ...marks } });
  const payloads = [said(1, 'a', { start: true }), said('x', 'a'), said(10, 'b'), said(4, 'a', { end: true })];
  const results = await guide.run('mean.ts', payloads);
  expect(results.map((result) => (result.ok ? result.json<{ mean: number }>().mean : result.status))).toEqual([1, 400, 10, 2.5]);
  expect(results.logs.map(({ fields }) => fields)).toEqual([
    { id: 'a', count: 2, reason: 'end' },
    { id: 'b', count: 1, reason: 'stop' },
  ]);
  const counted = await guide.run('countdown.ts', [{ from: 2 }, { from: -1 }, { from: 'x' }]);
  expect(counted.map((result) => (result.ok ? result.text() : result.status))).toEqual(['2 1 lift-off', 422, 400]);
  expect(guide.notRun()).toEqual([]);
});

it('the commands of the page give the answers of the page', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sequence-docs-'));
  const all = blocks(page('docs/sequences.md'));
  for (const { mark, code } of all) if (mark?.kind === 'file') writeFileSync(join(folder, mark.value), code);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const server = await startServer({});
  const shell = all.filter(({ language }) => language === 'sh').flatMap((block) => commands(block));
  const shown = all
    .find(({ language }) => language === 'json')
    ?.code.trim()
    .split('\n');
  const answers: string[] = [];
  try {
    for (const command of shell) {
      const archive = /^npx onnxserve (archive .*)--export-path model_store$/.exec(command)?.[1];
      if (archive === undefined) {
        const headers = Object.fromEntries(
          [...command.matchAll(/-H "([^:]+): ([^"]+)"/g)].map(([, name, value]) => [name!, value!]),
        );
        const path = /8080(\/\S+)/.exec(command)?.[1];
        const body: unknown = JSON.parse(/-d '([^']+)'/.exec(command)?.[1] ?? '');
        answers.push((await post(`${server.inference}${path}`, body, headers)).text);
        continue;
      }
      const program = join(root, 'packages/runtime/bin/onnxserve.js');
      const args = [program, ...archive.trim().split(' '), '--export-path', server.store];
      expect(spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })).toMatchObject({ status: 0 });
      const name = /--model-name (\S+)/.exec(archive)?.[1];
      expect((await send('POST', `${server.management}/models?url=${name}.mar`)).status).toBe(200);
    }
    expect(answers).toEqual([...(shown ?? []), '3 2 1 lift-off']);
    expect(await server.describe('mean')).toMatchObject({ stateful: true, maxNumSequence: 100, activeSequences: 0 });
    expect(await server.describe('countdown')).toMatchObject({ continuousBatching: true, batchSize: 8 });
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
