import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { get, metric } from '../helpers/client.js';
import { blocks, commands, marked, page, pages, root } from './markdown.js';
import { curl, type Quickstart, startQuickstart } from './quickstart.mjs';

const readme = page('README.md');
let folder: string;
let quickstart: Quickstart;
let environment: Record<string, string>;
let stopped = false;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onnxserve-quickstart-'));
  environment = { LOG_LOCATION: join(folder, 'logs'), METRICS_LOCATION: join(folder, 'logs'), TMPDIR: folder };
  // npm ci would take the packages away from under the other tests; the fresh clone's check runs it.
  const flags = ['--port', '0', '--model-store', join(folder, 'store'), '--no-install'];
  quickstart = await startQuickstart(root, flags, environment);
});
afterAll(async () => {
  if (!stopped) await quickstart.stop();
  await rm(folder, { recursive: true, force: true });
});

/** From the ports that the documentation names to those that the system chose. */
function here(url: string): string {
  const names: Record<string, string> = { '8080': 'inference', '8081': 'management', '8082': 'metrics' };
  return url.replace(/^http:\/\/127\.0\.0\.1:(\d+)/, (whole, port: string) => quickstart.listeners[names[port] ?? ''] ?? whole);
}

it('is what the README says, and ends each step with its seconds', () => {
  expect(commands(marked(readme, 'run', 'quickstart'))).toEqual(['node quickstart.mjs']);
  for (const step of ['build', 'archive digits', 'archive ocr', 'start the server'])
    expect(quickstart.output()).toMatch(new RegExp(`^✓ ${step} {2}\\d+\\.\\d s$`, 'm'));
  // No spinner where nobody watches.
  expect(quickstart.output()).not.toContain('\r');
});

it("answers the README's request with the README's answer", async () => {
  const [command = ''] = commands(marked(readme, 'run', 'request'));
  const response = await curl(command, { folder: root, url: here });
  expect(response.status).toBe(200);
  const scores = (answer: unknown) => answer as Array<{ label: string; probability: number }>;
  const shown = scores(JSON.parse(marked(readme, 'answer', 'digits').code));
  const got = scores(await response.json());
  expect(got.map(({ label }) => label)).toEqual(shown.map(({ label }) => label));
  // The last digits differ between processors.
  for (const [index, { probability }] of shown.entries()) expect(got[index]?.probability).toBeCloseTo(probability, 3);
});

it('prints requests that get real answers', async () => {
  expect(quickstart.requests).toHaveLength(2);
  const responses = await Promise.all(quickstart.requests.map((command) => curl(command, { folder: root })));
  const [digits, ocr] = await Promise.all(responses.map((response) => response.json()));
  expect(digits).toMatchObject([{ label: '7' }, {}, {}]);
  const lines = (ocr as Array<{ text: string }>).map(({ text }) => text);
  expect(lines).toEqual(['BOTANIC GARDEN', 'OPEN ALL YEAR', 'GATESEVEN']);
});

it('says where management and metrics are', async () => {
  const { management, metrics } = quickstart.listeners;
  const listed = await get(`${management}/models`);
  expect((listed.json as { models: Array<{ modelName: string }> }).models.map(({ modelName }) => modelName)).toEqual([
    'digits',
    'ocr',
  ]);
  expect(await metric(String(metrics), 'onnxserve_workers', { model: 'digits', state: 'ready' })).toBe(1);
});

const requests = pages()
  .flatMap((from) => blocks(from))
  .filter(({ language }) => language === 'sh')
  .flatMap((block) => commands(block).map((command) => [block.page, command] as const))
  .filter(([, command]) => /^curl .*(\/predictions\/(digits|ocr)|\/health|:8081\/models)/.test(command));

it('knows requests on more than one page', () => {
  expect(new Set(requests.map(([from]) => from)).size).toBeGreaterThan(3);
});

it.each(requests)('%s: %s', async (from, command) => {
  const own = from.startsWith('packages/examples/') ? join(root, dirname(from)) : root;
  const sample = join(root, 'packages/examples/digits/samples/7.png');
  const response = await curl(command, { folder: own, url: here, sample });
  expect(response.status, await response.text()).toBe(200);
});

it("answers the gRPC page's client with the digit", () => {
  const { code } = marked(page('docs/grpc.md'), 'file', 'client.mjs');
  const program = code.replace('127.0.0.1:7070', String(quickstart.listeners['gRPC']));
  expect(program).not.toBe(code);
  const options = { cwd: root, encoding: 'utf8', timeout: 20_000 } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], options);
  expect([status, stderr]).toEqual([0, '']);
  expect(JSON.parse(stdout)).toMatchObject([{ label: '7' }, {}, {}]);
});

it('stops cleanly on Ctrl-C', async () => {
  stopped = true;
  const { inference } = quickstart.listeners;
  expect(await quickstart.stop()).toBe(0);
  expect(quickstart.output()).toMatch(/\nStopped\.\n$/);
  await expect(get(`${inference}/ping`)).rejects.toThrow();
  expect(await readdir(folder)).not.toContain('.model_server.pid');
  expect((await readdir(join(folder, 'store'))).sort()).toEqual(['digits.mar', 'ocr.mar']);
});

function runToEnd(...flags: string[]) {
  const options = { cwd: root, env: { ...process.env, ...environment }, encoding: 'utf8' } as const;
  return spawnSync(process.execPath, ['quickstart.mjs', ...flags], options);
}

it('has help, and refuses what it does not know', () => {
  const help = runToEnd('--help');
  expect(help.status).toBe(0);
  for (const flag of ['--port', '--no-serve', '--no-install', '--model-store']) expect(help.stdout).toContain(flag);
  for (const flags of [
    ['--port', 'http'],
    ['--port', '70000'],
    ['--prot', '1'],
  ]) {
    const refused = runToEnd(...flags);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain(flags[0]);
  }
});

it('--no-serve makes the archives and says how to serve them', async () => {
  const store = join(folder, 'other');
  const { status, stdout } = runToEnd('--no-serve', '--no-install', '--model-store', store);
  expect(status).toBe(0);
  expect(stdout).toContain('npx onnxserve start');
  expect((await readdir(store)).sort()).toEqual(['digits.mar', 'ocr.mar']);
});
