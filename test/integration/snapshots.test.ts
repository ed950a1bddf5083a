import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { get, post, send } from '../helpers/client.js';
import { makeMar } from '../helpers/mar.js';
import { startIn } from '../helpers/start-in.js';
import { until } from '../helpers/until.js';

/** Says which archive it came from. */
const handler = `export default { handle: (batch, ctx) => batch.map(() => ctx.model.name + ' ' + ctx.model.version) };`;
const ports = ['inference_address', 'management_address', 'metrics_address'].map((key) => `${key}=http://127.0.0.1:0`);
const settings = [
  ...ports,
  'grpc_inference_port=0',
  'grpc_management_port=0',
  'enable_model_api=true',
  'disable_token_authorization=true',
];

let cwd: string;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'snapshots-'));
  await mkdir(join(cwd, 'store'));
  await makeMar(join(cwd, 'store'), 'kit', { handlerSource: handler, config: { minWorkers: 1, maxWorkers: 1 } });
  await makeMar(join(cwd, 'store'), 'echo', { handlerSource: handler });
  await makeMar(join(cwd, 'store'), 'echo_v2.0', { handlerSource: handler, modelName: 'echo', version: '2.0' });
  await writeFile(join(cwd, 'config.properties'), [...settings, 'model_store=store', 'load_models=kit.mar', ''].join('\n'));
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

const files = async () =>
  (await readdir(join(cwd, 'logs/config')).catch(() => [])).filter((name) => !name.startsWith('.')).sort();
const kinds = async () => (await files()).map((name) => /^\d{17}-(\w+)\.cfg$/.exec(name)?.[1]);
const described = async (management: string, path: string) =>
  (await get(`${management}/models/${path}`)).json as Array<Record<string, unknown>>;

/** What the recorded scenario does to a server. */
async function change(management: string): Promise<void> {
  for (const [method, path] of [
    ['POST', '/models?url=echo.mar&initial_workers=1&batch_size=4&response_timeout=33'],
    ['POST', '/models?url=echo_v2.0.mar&max_batch_delay=7'],
    ['PUT', '/models/echo/2.0/set-default'],
    ['PUT', '/models/kit?min_worker=2&synchronous=true'],
    ['POST', '/models?url=echo.mar&model_name=tmp1'],
    ['DELETE', '/models/tmp1'],
  ] as const)
    expect(await send(method, `${management}${path}`)).toMatchObject({ status: 200 });
}

describe('snapshots', () => {
  it('are written at the start, after changes and at the end, and bring everything back', async () => {
    const first = await startIn(cwd, ['start', '--foreground']);
    await until(async () => ((await files()).length > 0 ? true : undefined), 'the first snapshot');
    expect(await kinds()).toEqual(['startup']);
    await change(first.management);
    expect(await first.end()).toBe(0);
    const all = await kinds();
    expect(all[0]).toBe('startup');
    expect(all.at(-1)).toBe('shutdown');
    expect(all.filter((kind) => kind === 'snapshot').length).toBeGreaterThan(0);
    const last = join(cwd, 'logs/config', (await files()).at(-1)!);
    expect((await stat(last)).mode & 0o777).toBe(0o600);
    const text = await readFile(last, 'utf8');
    expect(text).toMatch(/^#Saving snapshot\n#.*\n/);
    expect(text).toContain('load_models=kit.mar');
    expect(text).toContain('"marName"\\: "echo_v2.0.mar"');

    const second = await startIn(cwd, ['start', '--foreground']);
    expect(second.output()).toContain('the models are those of this snapshot of the last run');
    const [kit] = await described(second.management, 'kit');
    expect(kit).toMatchObject({ minWorkers: 2, maxWorkers: 2, loadedAtStartup: false });
    const echo = await described(second.management, 'echo/all');
    expect(echo.sort((a, b) => (String(a['modelVersion']) < String(b['modelVersion']) ? -1 : 1))).toMatchObject([
      { modelVersion: '1.0', modelUrl: 'echo.mar', minWorkers: 1, batchSize: 4, responseTimeout: 33, batchRelease: 'adaptive' },
      { modelVersion: '2.0', modelUrl: 'echo_v2.0.mar', minWorkers: 0, maxBatchDelay: 7, batchRelease: 'delay' },
    ]);
    expect((await described(second.management, 'echo'))[0]).toMatchObject({ modelVersion: '2.0' });
    expect((await post(`${second.inference}/predictions/echo/1.0`, 'x')).text).toBe('echo 1.0');
    expect((await get(`${second.management}/models/tmp1`)).status).toBe(404);
    expect(await second.end()).toBe(0);
  });

  it('yield to a named configuration, to --models, and to --ncs, which writes none', async () => {
    const first = await startIn(cwd, ['start', '--foreground']);
    await change(first.management);
    await first.end();
    const before = await files();
    for (const args of [['--ts-config', 'config.properties', '--ncs'], ['--models', 'kit=kit.mar', '--ncs'], ['--ncs']]) {
      const again = await startIn(cwd, ['start', '--foreground', ...args]);
      expect((await get(`${again.management}/models`)).json).toMatchObject({ models: [{ modelName: 'kit' }] });
      expect((await described(again.management, 'kit'))[0]).toMatchObject({ minWorkers: 1, loadedAtStartup: true });
      await again.end();
    }
    expect(await files()).toEqual(before);
  });

  it('restore as --ts-config, without config.properties too', async () => {
    const first = await startIn(cwd, ['start', '--foreground']);
    await change(first.management);
    await first.end();
    const last = join('logs/config', (await files()).at(-1)!);
    await rm(join(cwd, 'config.properties'));
    for (const args of [['--ts-config', last, '--ncs'], []]) {
      const again = await startIn(cwd, ['start', '--foreground', ...args]);
      expect((await described(again.management, 'echo'))[0]).toMatchObject({ modelVersion: '2.0' });
      await again.end();
    }
  });

  it('name an archive that is gone, start the rest, and do not forget it', async () => {
    const first = await startIn(cwd, ['start', '--foreground']);
    await change(first.management);
    await first.end();
    await rm(join(cwd, 'store/echo.mar'));
    const second = await startIn(cwd, ['start', '--foreground']);
    expect(second.failures.join()).toContain('echo.mar');
    expect((await get(`${second.inference}/health/ready`)).status).toBe(503);
    expect((await post(`${second.inference}/predictions/kit`, 'x')).text).toBe('kit 1.0');
    await second.end();
    await makeMar(join(cwd, 'store'), 'echo', { handlerSource: handler });
    const third = await startIn(cwd, ['start', '--foreground']);
    expect(third.failures).toEqual([]);
    expect(await described(third.management, 'echo/all')).toHaveLength(2);
    await third.end();
  });

  it('cost nothing but themselves where they cannot be written', async () => {
    await mkdir(join(cwd, 'logs'));
    // A file where the folder should be stands for what root may always do.
    await writeFile(join(cwd, 'logs/config'), '');
    await chmod(join(cwd, 'logs/config'), 0o400);
    const server = await startIn(cwd, ['start', '--foreground']);
    await change(server.management);
    await until(async () => (server.output().includes('No snapshots are written') ? true : undefined), 'the warning');
    expect(server.output().split('No snapshots are written')).toHaveLength(2);
    expect(await server.end()).toBe(0);
  });

  it('are in order although the clock was set back, and clear up after a server that was killed while it wrote one', async () => {
    const first = await startIn(cwd, ['start', '--foreground']);
    await first.end();
    const folder = join(cwd, 'logs/config');
    await rename(join(folder, (await files()).at(-1)!), join(folder, '29991231235959999-shutdown.cfg'));
    await writeFile(join(folder, '.20200101000000000-snapshot.cfg.part'), 'half of');
    const second = await startIn(cwd, ['start', '--foreground']);
    await change(second.management);
    await second.end();
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
    const third = await startIn(cwd, ['start', '--foreground']);
    expect((await described(third.management, 'echo'))[0]).toMatchObject({ modelVersion: '2.0' });
    await third.end();
  });

  it('are pruned to the newest', async () => {
    await writeFile(
      join(cwd, 'config.properties'),
      [...settings, 'model_store=store', 'load_models=kit.mar', 'snapshot_max_files=2', ''].join('\n'),
    );
    const server = await startIn(cwd, ['start', '--foreground']);
    for (const workers of [2, 1, 2, 1])
      await send('PUT', `${server.management}/models/kit?min_worker=${workers}&synchronous=true`);
    await server.end();
    const left = await kinds();
    expect(left).toHaveLength(2);
    expect(left.at(-1)).toBe('shutdown');
  });
});
