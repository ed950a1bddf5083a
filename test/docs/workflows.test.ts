import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { get, post, send } from '../helpers/client.js';
import { startServer } from '../helpers/server.js';
import { blocks, commands, page, root } from './markdown.js';

it('the example of docs/workflows.md works as it is written', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'workflow-docs-'));
  const all = blocks(page('docs/workflows.md'));
  for (const { mark, code } of all) if (mark?.kind === 'file') writeFileSync(join(folder, mark.value), code);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const onnxserve = (args: readonly string[], cwd: string) => {
    const program = join(root, 'packages/runtime/bin/onnxserve.js');
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], { cwd, encoding: 'utf8' });
    expect(stderr).not.toMatch(/Error/);
    expect(status).toBe(0);
  };
  const server = await startServer({});
  try {
    const example = join(root, 'packages/examples/digits');
    onnxserve(
      `archive --model-name digits --version 1.0 --serialized-file model/digits.onnx --handler handler.ts --extra-files model/index_to_name.json --config-file model-config.yaml --export-path ${server.store}`.split(
        ' ',
      ),
      example,
    );
    const [archive = '', register = '', ask = ''] = all
      .filter(({ language }) => language === 'sh')
      .flatMap((block) => commands(block));
    onnxserve(archive.replace('npx onnxserve ', '').replace('model_store', server.store).split(' '), folder);
    const path = /8081(\/\S+?)"/.exec(register)?.[1];
    expect(await send('POST', `${server.management}${path}`)).toMatchObject({ status: 200 });
    const picture = readFileSync(join(root, / -T (\S+)$/.exec(ask)?.[1] ?? ''));
    const answer = await post(`${server.inference}${/8080(\/\S+)/.exec(ask)?.[1]}`, picture);
    expect(answer.status).toBe(200);
    const shown = all.find(({ code }) => code.startsWith('{"sentence"'))?.code.trim();
    expect(answer.text).toBe(shown);
    expect(answer.headers.get('server-timing')).toMatch(/inference;dur=/);
    expect((await get(`${server.management}/models`)).json).toMatchObject({ models: [{ modelName: 'reading__digits' }] });
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
