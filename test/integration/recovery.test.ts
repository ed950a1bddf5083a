import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { get, messageOf, post, send } from '../helpers/client.js';
import { makeGate } from '../helpers/gate.js';
import { makeMar } from '../helpers/mar.js';
import { runToEnd, type ServerOptions, startServer, type TestServer } from '../helpers/server.js';
import { startIn } from '../helpers/start-in.js';
import { until } from '../helpers/until.js';

const one = { minWorkers: 1, maxWorkers: 1 };

async function start(options: ServerOptions): Promise<TestServer> {
  const server = await startServer(options);
  onTestFinished(async () => void (await server.stop()));
  return server;
}
async function folderOfOwn(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'onnxserve-recovery-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

describe('a model that cannot be loaded', () => {
  it('give-up: is not started again by itself, and is when it is scaled', async () => {
    const gate = await makeGate('load');
    const server = await start({
      models: { m: { handlerSource: gate.handlerSource, config: { ...one, onLoadFailure: 'give-up' } } },
    });
    await gate.set('fail');
    process.kill((await server.describe('m')).workers[0]!.pid, 'SIGKILL');
    const lost = await until(
      async () => (await server.describe('m')).workers.find(({ state }) => state === 'gave-up'),
      'it is given up',
    );
    expect(lost.lastError).toContain('the vocabulary is missing');
    const refused = await post(`${server.inference}/predictions/m`, { value: 1 });
    expect(refused.status).toBe(503);
    expect(messageOf(refused)).toContain('the vocabulary is missing');
    expect((await get(`${server.inference}/ping`)).status).toBe(500);

    // The same number again: fails with the reason and changes nothing, or brings it back.
    const scale = () => send('PUT', `${server.management}/models/m?min_worker=1&max_worker=1&synchronous=true`);
    const failed = await scale();
    expect(failed.status).toBeGreaterThanOrEqual(500);
    expect(messageOf(failed)).toContain('the vocabulary is missing');
    expect(await server.describe('m')).toMatchObject({ minWorkers: 1, maxWorkers: 1 });
    await gate.set('load');
    expect((await scale()).status).toBe(200);
    expect((await post(`${server.inference}/predictions/m`, { value: 1 })).status).toBe(200);
    expect((await get(`${server.inference}/health/ready`)).status).toBe(200);
  });

  it('a scaling up that fails leaves the numbers and the workers as they were', async () => {
    const gate = await makeGate('load');
    const server = await start({ models: { m: { handlerSource: gate.handlerSource, config: one } } });
    const { pid } = (await server.describe('m')).workers[0]!;
    await gate.set('fail');
    const failed = await send('PUT', `${server.management}/models/m?min_worker=3&max_worker=3&synchronous=true`);
    expect(failed.status).toBeGreaterThanOrEqual(500);
    const after = await server.describe('m');
    expect(after).toMatchObject({ minWorkers: 1, maxWorkers: 1 });
    expect(after.workers.map((worker) => worker.pid)).toEqual([pid]);
  });

  it.each<[string, ServerOptions]>([
    [
      'onLoadFailure: exit',
      { models: { m: { handler: 'load-fails', config: { ...one, onLoadFailure: 'exit', maxRetryTimeoutInSec: 1 } } } },
    ],
    ['on_load_failure=exit', { models: {}, config: { load_models: 'nosuch.mar', on_load_failure: 'exit' } }],
  ])('%s: the server ends with code 3 and says why', async (_, options) => {
    const { code, output } = await runToEnd({
      models: { good: { handler: 'whole-batch', config: one }, ...options.models },
      ...options,
    });
    expect(code).toBe(3);
    expect(output).toMatch(/the vocabulary of 1234 words is missing|nosuch\.mar/);
    // A stack once, then one line for each further try.
    expect(output.split('\n').filter((line) => /^\s+at /.test(line)).length).toBeLessThan(40);
  });
});

it('a front that is killed comes back with what was registered, and without what the dead one left', async () => {
  const folder = await folderOfOwn();
  const store = join(folder, 'store');
  await mkdir(store);
  await makeMar(store, 'm', { handler: 'whole-batch', config: one });
  const socket = join(folder, 'management.sock');
  await writeFile(
    join(folder, 'config.properties'),
    ['inference_address=http://127.0.0.1:0', `metrics_address=unix:${socket}`, 'management_address=http://127.0.0.1:0']
      .concat(['grpc_inference_port=0', 'grpc_management_port=0', 'enable_model_api=true', 'disable_token_authorization=true'])
      .concat(['model_store=store', 'load_models=', ''])
      .join('\n'),
  );
  const args = ['start', '--foreground'];
  const startAgain = async () => {
    const server = await startIn(folder, args);
    // Whatever the test makes of it, none is left.
    onTestFinished(async () => void (await server.end('SIGKILL')));
    return server;
  };
  const first = await startAgain();
  const snapshots = async () => {
    const names = await readdir(join(folder, 'logs', 'config'));
    const texts = await Promise.all(names.map((name) => readFile(join(folder, 'logs', 'config', name), 'utf8')));
    return texts.some((text) => text.includes('m.mar')) ? true : undefined;
  };
  const registered = await send('POST', `${first.management}/models?url=m.mar&initial_workers=1&synchronous=true`);
  expect(registered.status).toBe(200);
  await until(snapshots, 'a snapshot has it');
  const models = async () => (await readdir(folder)).filter((name) => name.startsWith('onnxserve-models-'));
  const left = await models();
  expect(left).toHaveLength(1);
  expect(await first.end('SIGKILL')).toBe('SIGKILL');

  const second = await startAgain();
  expect(second.failures).toEqual([]);
  expect((await post(`${second.inference}/predictions/m`, { value: 5 })).json).toMatchObject({ value: 5 });
  expect((await get(`${second.inference}/health/ready`)).status).toBe(200);
  const now = await models();
  expect(now).toHaveLength(1);
  expect(now).not.toEqual(left);
  expect(await second.end()).toBe(0);
  expect(await models()).toEqual([]);
});

it('systemd is told that it is ready, that it lives, and that it stops', async () => {
  const folder = await folderOfOwn();
  const said = join(folder, 'said');
  const program = join(folder, 'systemd-notify');
  await writeFile(program, `#!/bin/sh\nprintf '%s;' "$@" >> ${said}\necho >> ${said}\n`);
  await chmod(program, 0o755);
  const server = await start({
    models: { m: { handler: 'whole-batch', config: one } },
    environment: {
      PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`,
      NOTIFY_SOCKET: join(folder, 'notify'),
      WATCHDOG_USEC: '400000',
    },
  });
  const heard = async () => await readFile(said, 'utf8').catch(() => '');
  await until(async () => ((await heard()).includes('WATCHDOG=1') ? true : undefined), 'a sign of life');
  expect((await heard()).split('\n')[0]).toBe(`READY=1;MAINPID=${server.pid};STATUS=1 model(s) loaded;`);
  process.kill(server.pid, 'SIGTERM');
  expect(await server.exit).toBe(0);
  await until(async () => ((await heard()).includes('STOPPING=1') ? true : undefined), 'it says that it stops');
});
