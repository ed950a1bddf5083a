import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { createReadStream } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { get, messageOf, post, send } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { makeMar } from '../helpers/mar.js';
import { runToEnd, startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const handler = { handler: 'whole-batch' };
const json = (value: unknown) => JSON.stringify(value);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onnxserve-config-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** The line of a key in what `onnxserve check` prints. */
const lineOf = (key: string, output: string) =>
  output
    .split('\n')
    .find((line) => line.startsWith(`${key} `))
    ?.replaceAll(/\s+/g, ' ');

describe('where a value comes from, as the command prints it', () => {
  const write = (name: string, text: string) => writeFile(join(folder, name), text);
  const check = async (args: readonly string[], environment: Record<string, string> = {}) => {
    const { stdout, stderr } = await runCommand(['check', ...args], folder, environment);
    return { stdout, stderr, store: lineOf('model_store', stdout), queue: lineOf('job_queue_size', stdout) };
  };
  beforeEach(async () => {
    for (const name of ['from-file', 'from-flag', 'from-env', 'from-set']) await mkdir(join(folder, name));
  });

  it.each([
    ['absent', ''],
    ['false', 'enable_envvars_config=false\n'],
  ])('variables do nothing with enable_envvars_config %s, and that is said', async (_, line) => {
    await write('config.properties', `${line}model_store=from-file\njob_queue_size=11\n`);
    const found = await check([], { TS_JOB_QUEUE_SIZE: '33', TS_MODEL_STORE: 'from-env' });
    expect(found.store).toMatch(/from-file .*\(.*config\.properties:\d+\)/);
    expect(found.queue).toMatch(/= 11 .*config\.properties/);
    expect(found.stderr).toMatch(/TS_JOB_QUEUE_SIZE.*enable_envvars_config|enable_envvars_config.*TS_JOB_QUEUE_SIZE/);
  });

  it('what the server works out for itself is shown as it is', async () => {
    await write('config.properties', 'model_store=from-file\nmanagement_address=http://0.0.0.0:8081\n');
    const { stdout } = await check([]);
    expect(lineOf('disable_token_authorization', stdout)).toContain('= not set: tokens for management (default)');
    expect(lineOf('allow_private_urls', stdout)).toContain('= false (default)');
    expect(lineOf('max_body_memory', stdout)).toMatch(/= \d+ \(default\)/);
    expect(lineOf('token_key_file', stdout)).toContain(join(folder, 'key_file.json'));
  });

  it('variables beat the command line, which beats the file; --set beats all', async () => {
    await write('config.properties', 'enable_envvars_config=true\nmodel_store=from-file\njob_queue_size=11\n');
    expect((await check([])).store).toMatch(/from-file /);
    const flag = await check(['--model-store', 'from-flag']);
    expect(flag.store).toMatch(/from-flag .*command line/);
    const variable = await check(['--model-store', 'from-flag'], { TS_MODEL_STORE: 'from-env', TS_JOB_QUEUE_SIZE: '33' });
    expect(variable.store).toMatch(/from-env .*TS_MODEL_STORE/);
    expect(variable.queue).toMatch(/= 33 .*TS_JOB_QUEUE_SIZE/);
    const set = await check(['--set', 'job_queue_size=44', 'model_store=from-set'], {
      TS_MODEL_STORE: 'from-env',
      TS_JOB_QUEUE_SIZE: '33',
    });
    expect(set.queue).toMatch(/= 44 /);
    expect(set.store).toMatch(/from-set /);
  });

  it('TS_CONFIG_FILE beats --ts-config beats ./config.properties', async () => {
    await write('config.properties', 'model_store=from-file\njob_queue_size=11\n');
    await write('flag.properties', 'model_store=from-file\njob_queue_size=22\n');
    await write('variable.properties', 'model_store=from-file\njob_queue_size=33\n');
    expect((await check([])).queue).toMatch(/= 11 .*config\.properties:2/);
    expect((await check(['--ts-config', 'flag.properties'])).queue).toMatch(/= 22 .*flag\.properties:2/);
    const both = await check(['--ts-config', 'flag.properties'], { TS_CONFIG_FILE: 'variable.properties' });
    expect(both.queue).toMatch(/= 33 .*variable\.properties:2/);
  });

  it('reads the syntax of Java properties, and names what is nearly a key', async () => {
    const text = [
      '# a comment',
      '! another',
      'model_store : from-file',
      'job_queue_size 17',
      'default_workers_per_model=\\',
      '   2',
      'cors_allowed_origin=http\\://a.example/caf\\u00e9',
      'job_queue_sice=9',
      'max_request_size=1000',
      'max_request_size=2000',
    ].join('\r\n');
    await write('config.properties', `\uFEFF${text}`);
    const { stdout, stderr, store, queue } = await check([]);
    expect(store).toContain('from-file');
    expect(queue).toMatch(/= 17 /);
    expect(lineOf('default_workers_per_model', stdout)).toMatch(/= 2 /);
    expect(lineOf('cors_allowed_origin', stdout)).toContain('= http://a.example/caf\u00e9 ');
    expect(lineOf('max_request_size', stdout)).toMatch(/= 2000 /);
    expect(stderr).toMatch(/config\.properties:8.*job_queue_sice.*job_queue_size/);
    expect(stderr).toMatch(/max_request_size/);
  });

  it.each([
    ['job_queue_size', 'many'],
    ['inference_address', 'nonsense'],
    ['allowed_urls', '['],
    ['metrics_mode', 'zzz'],
  ])('a value that cannot be read fails the check and the start with file, line and key: %s=%s', async (key, value) => {
    await write('config.properties', `model_store=from-file\n\n${key}=${value}\n`);
    for (const command of ['check', 'start']) {
      const ended = await runCommand([command, '--foreground'], folder);
      expect(ended.code).toBe(1);
      expect(ended.stderr).toContain('config.properties:3');
      expect(ended.stderr).toContain(`${key}=${value}`);
    }
  });
});

describe('the model store', () => {
  const start = (...args: string[]) => runCommand(['start', '--foreground', ...args], folder);

  it('neither in the file nor on the command line: the start ends with the name of the setting', async () => {
    await writeFile(join(folder, 'config.properties'), 'load_models=a.mar\n');
    const ended = await start();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/model_store.*--model-store/);
  });

  it.each([
    ['does not exist', 'nowhere', /model_store .*nowhere does not exist/],
    ['is a file', 'config.properties', /model_store .*config\.properties is no folder/],
    ['is in quotes', '"store"', /quotes/],
  ])('%s: the start ends with the reason', async (_, store, message) => {
    await writeFile(join(folder, 'config.properties'), `model_store=${store}\n`);
    const ended = await start();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(message);
  });

  it('with blanks in its path, relative and read-only, it serves', async () => {
    const store = join(folder, 'my models');
    await makeMar(store, 'm', handler);
    await chmod(store, 0o555);
    const own = await startServer({ models: {}, config: { load_models: 'm.mar' }, args: ['--set', `model_store=${store}`] });
    try {
      expect((await post(`${own.inference}/predictions/m`, { value: 3 })).json).toMatchObject({ value: 3 });
    } finally {
      await own.stop();
      await chmod(store, 0o755);
    }
  });
});

describe('start-up models', () => {
  it.each([
    ['batchSize', 'five'],
    ['maxBatchDelay', -1],
    ['responseTimeout', 0],
    ['minWorkers', -2],
    ['maxWorkers', '3x'],
  ])('%s %j in models stops the start with its name, model and value', async (key, value) => {
    const models = { five: { '1.0': { marName: 'five.mar', minWorkers: 1, maxWorkers: 1, [key]: value } } };
    const ended = await runToEnd({ models: { five: handler }, config: { models: json(models) } });
    expect(ended.code).toBe(1);
    expect(ended.output).toContain(key);
    expect(ended.output).toContain('five');
    expect(ended.output).toContain(String(value));
  });

  it('models gives an archive its name; alone it loads what it names', async () => {
    const models = { renamed: { '1.0': { defaultVersion: true, marName: 'file.mar', minWorkers: 1, maxWorkers: 1 } } };
    const own = await startServer({ models: { file: handler }, config: { models: json(models) } });
    try {
      expect((await get(`${own.management}/models`)).json).toMatchObject({ models: [{ modelName: 'renamed' }] });
      expect((await post(`${own.inference}/predictions/renamed`, { value: 1 })).status).toBe(200);
      expect((await post(`${own.inference}/predictions/file`, { value: 1 })).status).toBe(404);
    } finally {
      await own.stop();
    }
    const check = async (more: string) => {
      const text = `model_store=.\nmodels=${json(models)}\n${more}`;
      await writeFile(join(folder, 'config.properties'), text);
      return await runCommand(['check'], folder);
    };
    expect(lineOf('load_models', (await check('')).stdout)).toMatch(/= renamed=file\.mar .*config\.properties/);
    expect((await check('load_models=other.mar\n')).stderr).toMatch(/renamed.*load_models|load_models.*renamed/);
    expect((await check('load_models=renamed=other.mar\n')).code).toBe(1);
  });
});

describe('a model of three sources of settings', () => {
  let server: TestServer;
  beforeAll(async () => {
    const all = { defaultVersion: true, minWorkers: 1, maxWorkers: 1, batchSize: 2, maxBatchDelay: 22, responseTimeout: 222 };
    const models = { plain: { '1.0': { ...all, marName: 'plain.mar' } }, tuned: { '1.0': { ...all, marName: 'tuned.mar' } } };
    server = await startServer({
      models: {
        plain: handler,
        tuned: { ...handler, config: { batchSize: 4, maxBatchDelay: 44, responseTimeout: 444 } },
      },
      config: { models: json(models) },
    });
  });
  afterAll(() => server.stop());

  it('takes the call, then its own file, then config.properties', async () => {
    expect(await server.describe('plain')).toMatchObject({ batchSize: 2, maxBatchDelay: 22, responseTimeout: 222 });
    expect(await server.describe('tuned')).toMatchObject({ batchSize: 4, maxBatchDelay: 44, responseTimeout: 444 });
    expect((await send('DELETE', `${server.management}/models/tuned`)).status).toBe(200);
    const register = (query: string) =>
      send('POST', `${server.management}/models?url=tuned.mar&initial_workers=1&synchronous=true${query}`);
    expect((await register('&batch_size=8&max_batch_delay=88&response_timeout=888')).status).toBe(200);
    expect(await server.describe('tuned')).toMatchObject({ batchSize: 8, maxBatchDelay: 88, responseTimeout: 888 });
    expect((await send('DELETE', `${server.management}/models/tuned`)).status).toBe(200);
    expect((await register('')).status).toBe(200);
    const described = await server.describe('tuned');
    expect(described).toMatchObject({ batchSize: 4, maxBatchDelay: 44, responseTimeout: 444 });
    expect(described).toMatchObject({
      startupTimeout: expect.any(Number) as number,
      maxRetryTimeoutInSec: expect.any(Number) as number,
      clientTimeoutInMills: expect.any(Number) as number,
      jobQueueSize: expect.any(Number) as number,
    });
  });

  it('says what it does not use', async () => {
    await server.addModel('python', { ...handler, files: { 'requirements.txt': 'numpy\n' } });
    expect((await send('POST', `${server.management}/models?url=python.mar&initial_workers=0`)).status).toBe(200);
    const { warnings } = (await server.describe('python')) as unknown as { warnings: string[] };
    expect(warnings.join('\n')).toContain('requirements.txt');
  });
});

it('settings of handlers and workers reach them', async () => {
  const source = `import { decodeImage } from '@onnxserve/handler-kit/preprocess/image';
export const named = { handle: (batch) => Promise.all(batch.map(async ({ request }) => (await decodeImage(request.body())).width)) };`;
  // A picture that says that it has 900 million pixels, and has none.
  const chunk = (type: string, data: Buffer) => {
    const content = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const [length, sum] = [data.length, crc32(content)].map((value) => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      return bytes;
    });
    return Buffer.concat([length!, content, sum!]);
  };
  const header = Buffer.from([0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30, 8, 2, 0, 0, 0]);
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  const bomb = Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', Buffer.alloc(10)), chunk('IEND', Buffer.alloc(0))]);
  for (const [limited, status, message] of [
    [true, 413, 'limit_max_image_pixels=false'],
    [false, 400, 'cannot be decoded'],
  ] as const) {
    const server = await startServer({
      models: { picture: { handlerSource: source, manifest: { handler: undefined } } },
      config: { default_service_handler: 'handler.mjs:named', limit_max_image_pixels: limited, initial_worker_port: 9500 },
    });
    try {
      const answer = await post(`${server.inference}/predictions/picture`, bomb);
      expect(answer.status).toBe(status);
      expect(messageOf(answer)).toContain(message);
      expect((await server.describe('picture')).workers).toMatchObject([{ id: '9500' }]);
    } finally {
      await server.stop();
    }
  }
});

it('an archive from a URL comes and goes again and again; a file of the store stays', async () => {
  const outside = join(folder, 'outside');
  const archive = await makeMar(outside, 'remote', handler);
  const files = createServer((request, response) => {
    if (request.url === '/remote.mar') createReadStream(archive).pipe(response);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(files.address() as AddressInfo).port}`;
  const server = await startServer({
    models: { local: handler },
    config: { load_models: '', allowed_urls: `${origin.replaceAll('.', '\\\\.')}/.*` },
  });
  const cycle = async (url: string, name: string) => {
    const query = `url=${encodeURIComponent(url)}&initial_workers=1&synchronous=true`;
    const answer = await send('POST', `${server.management}/models?${query}`);
    expect(answer, messageOf(answer)).toMatchObject({ status: 200 });
    expect((await post(`${server.inference}/predictions/${name}`, { value: 1 })).status).toBe(200);
    expect((await send('DELETE', `${server.management}/models/${name}`)).status).toBe(200);
    expect(await readdir(server.store)).toEqual(['local.mar']);
  };
  try {
    for (let round = 0; round < 3; round++) await cycle(`${origin}/remote.mar`, 'remote');
    for (let round = 0; round < 3; round++) await cycle('local.mar', 'local');
    await copyFile(archive, join(folder, 'elsewhere.mar'));
    const forbidden = await send('POST', `${server.management}/models?url=file://${join(folder, 'elsewhere.mar')}`);
    expect(forbidden.status).toBeGreaterThanOrEqual(400);
    expect(messageOf(forbidden)).toContain('allowed_urls');
    expect(await readdir(server.store)).toEqual(['local.mar']);
  } finally {
    await server.stop();
    files.close();
  }
});

describe('a GPU that cannot be used', () => {
  let server: TestServer;
  // No device is visible, whatever the machine has.
  const environment = { CUDA_VISIBLE_DEVICES: '-1' };
  const model = { model: 'identity-fp32.onnx' };
  beforeAll(async () => {
    server = await startServer({ models: { cpu: { ...model, config: { minWorkers: 1, maxWorkers: 1 } } }, environment });
  });
  afterAll(() => server.stop());
  const register = (name: string) =>
    send('POST', `${server.management}/models?url=${name}.mar&initial_workers=1&synchronous=true`);

  it('fails the registration with what is missing and what to install', async () => {
    await server.addModel('gpu', { ...model, config: { deviceType: 'gpu' } });
    const answer = await register('gpu');
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect(answer.json).toMatchObject({ reason: 'provider-missing' });
    expect(messageOf(answer)).toMatch(/GPU.*Install .*requireDevice: false/s);
    expect((await get(`${server.management}/models/gpu`)).status).toBe(404);
  });

  it('is replaced by the CPU only when that is allowed, and describe shows it', async () => {
    await server.addModel('either', { ...model, config: { deviceType: 'gpu', onnx: { requireDevice: false } } });
    expect((await register('either')).status).toBe(200);
    const { workers, warnings } = await server.describe('either');
    expect(workers).toMatchObject([{ providers: ['cpu'], gpu: false }]);
    expect(warnings).toEqual([expect.stringContaining('requireDevice')]);
    await until(async () => server.logs().includes('asked for a GPU and runs on the CPU') || undefined, 'the log says so');
    const answer = await post(`${server.inference}/predictions/either`, { input: [[1, 2, 3, 4]] });
    expect(answer.json).toEqual({ output: [[1, 2, 3, 4]] });
  });
});
