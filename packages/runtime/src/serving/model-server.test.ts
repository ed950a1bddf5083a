import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { zipBytes } from '../../../../test/helpers/zip-bytes.js';
import { loadConfig } from '../config/load-config.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, noStages, type PredictRequest } from '../domain/request.js';
import type { FromWorker, ToWorker } from '../ipc/messages.js';
import type { ProcessListener, SpawnWorker } from '../workers/worker-process.js';
import { ModelServer } from './model-server.js';
import { loadStartupModels, type StartupProgress } from './startup.js';

/** A worker that loads or fails as it is told, answers with its version, and ends when asked. */
class FakeWorker {
  version = '';
  ended = false;
  waiting: number[] = [];

  constructor(private readonly listener: ProcessListener) {}

  readonly pid = 1;
  kill(signal: NodeJS.Signals): void {
    this.end(null, signal);
  }
  send(message: ToWorker): void {
    setImmediate(() => this.#take(message));
  }
  answerAll(): void {
    for (const job of this.waiting.splice(0)) {
      const postprocessedAt = monotonicNow();
      const body = Buffer.from(this.version);
      const result = {
        job,
        ok: true,
        status: 200,
        headers: [],
        length: body.length,
        stages: noStages(),
        batchSize: 1,
        postprocessedAt,
      };
      this.#say({ type: 'results', items: [result as never] }, body);
    }
  }
  end(code: number | null, signal: NodeJS.Signals | null = null): void {
    if (this.ended) return;
    this.ended = true;
    setImmediate(() => this.listener.exit(code, signal));
  }
  #say(message: FromWorker, blob = Buffer.alloc(0)): void {
    if (!this.ended) this.listener.message(message, blob);
  }
  #take(message: ToWorker): void {
    if (message.type === 'stop') this.end(0);
    if (message.type === 'recall') this.#say({ type: 'recalled', jobs: this.waiting.splice(1) });
    if (message.type === 'batch') {
      this.waiting.push(...message.items.map(({ job }) => job));
      if (!holding) this.answerAll();
    }
    if (message.type !== 'load') return;
    this.version = message.spec.version;
    if (broken.has(message.spec.name)) {
      this.#say({ type: 'failed', error: { code: 'WORKER_START_FAILED', message: 'no vocabulary', reason: 'handler-error' } });
    } else
      this.#say({
        type: 'loaded',
        info: { inputs: [], outputs: [], providers: ['cpu'], wholeBatch: false, continuous: false, loadMs: 1 },
      });
  }
}

let work: string;
let workers: FakeWorker[];
let broken: Set<string>;
let holding: boolean;
let server: ModelServer;
const spawn: SpawnWorker = (_, listener) => {
  const worker = new FakeWorker(listener);
  workers.push(worker);
  return worker;
};

async function mar(file: string, modelName: string, modelVersion = '1.0'): Promise<void> {
  const manifest = { model: { modelName, modelVersion, handler: 'handler.mjs' }, archiverVersion: '1' };
  const entries = [
    { name: 'MAR-INF/MANIFEST.json', data: JSON.stringify(manifest) },
    { name: 'handler.mjs', data: 'export default { handle: (batch) => batch };' },
  ];
  await writeFile(join(work, 'store', file), zipBytes(entries));
}
function configure(overrides: Record<string, string> = {}) {
  const { config } = loadConfig({
    argv: { modelStore: join(work, 'store'), overrides } as never,
    env: { TMPDIR: join(work, 'temp') },
    cwd: work,
  });
  server = new ModelServer({
    config,
    cpus: 2,
    spawn,
    archives: {
      modelStore: join(work, 'store'),
      tempDirectory: join(work, 'temp'),
      allowedUrls: [],
      limits: { maxArchiveSize: 1 << 20, maxArchiveRatio: 200 },
    },
  });
  return config;
}
const predict = (modelName: string, modelVersion?: string) =>
  server
    .predict({
      id: 'r',
      modelName,
      modelVersion,
      kind: 'predict',
      rawHeaders: [],
      urlPath: '',
      query: [],
      body: Buffer.alloc(0),
      receivedAt: monotonicNow(),
      client: undefined,
    } satisfies PredictRequest)
    .then(
      ({ body }) => (body as Buffer).toString(),
      (error: unknown) => (error as ServeError).code,
    );
const tick = () => new Promise((resolve) => setImmediate(resolve));
const code = (promise: Promise<unknown>) =>
  promise.then(
    () => 'ok',
    (error: unknown) => (error as ServeError).code,
  );
const register = (url: string, initialWorkers = 1, synchronous = true) => server.register({ url, initialWorkers, synchronous });

beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'model-server-'));
  await mkdir(join(work, 'store'));
  await mkdir(join(work, 'temp'));
  workers = [];
  broken = new Set();
  holding = false;
  configure();
});
afterEach(async () => {
  await server.close(1000);
  expect(workers.filter(({ ended }) => !ended)).toEqual([]);
  expect(await readdir(join(work, 'temp'))).toEqual([]);
  await rm(work, { recursive: true, force: true });
});

describe('registering', () => {
  it('serves when it says so', async () => {
    await mar('a.mar', 'a');
    expect(await register('a.mar')).toMatchObject({ state: 'done' });
    expect(await predict('a')).toBe('1.0');
    expect(await predict('a', '9')).toBe('MODEL_VERSION_NOT_FOUND');
    expect(await predict('b')).toBe('MODEL_NOT_FOUND');
  });

  it('without workers refuses requests and says how to get some', async () => {
    await mar('a.mar', 'a');
    expect((await register('a.mar', 0)).status).toContain('0 initial workers');
    expect(await predict('a')).toBe('MODEL_NOT_READY');
    await server.scale('a', undefined, { minWorkers: 1, maxWorkers: 1, synchronous: true });
    expect(await predict('a')).toBe('1.0');
  });

  it('a model that cannot load leaves nothing behind', async () => {
    await mar('a.mar', 'a');
    broken.add('a');
    await expect(register('a.mar')).rejects.toThrow('no vocabulary');
    expect(server.models).toEqual([]);
    broken.clear();
    expect(await code(register('a.mar'))).toBe('ok');
  });

  it('a second version that cannot load leaves the first as it was', async () => {
    await mar('a1.mar', 'a', '1.0');
    await register('a1.mar');
    await mar('a2.mar', 'a', '2.0');
    broken.add('a');
    expect(await code(register('a2.mar'))).toBe('WORKER_START_FAILED');
    expect(await predict('a')).toBe('1.0');
    expect(server.models).toHaveLength(1);
  });

  it('of two at once of the same version one wins', async () => {
    await mar('a.mar', 'a');
    const codes = await Promise.all([code(register('a.mar')), code(register('a.mar'))]);
    expect(codes.sort()).toEqual(['CONFLICT', 'ok']);
    expect(await predict('a')).toBe('1.0');
  });

  it('refuses more workers than the limit, with the key', async () => {
    configure({ max_workers_limit: '2' });
    await mar('a.mar', 'a');
    await expect(register('a.mar', 3)).rejects.toThrow('max_workers_limit');
    expect(server.models).toEqual([]);
  });

  it('in the background shows what went wrong', async () => {
    await mar('a.mar', 'a');
    broken.add('a');
    expect(await register('a.mar', 1, false)).toMatchObject({ state: 'started' });
    await expect(server.models[0]!.pool.started()).rejects.toThrow('no vocabulary');
    const [description] = await server.describe('a', undefined, false);
    expect(description?.lastError).toBe('no vocabulary');
    expect(await predict('a')).toBe('MODEL_NOT_READY');
  });
});

describe('removing', () => {
  it('lets what was accepted finish', async () => {
    await mar('a.mar', 'a');
    await register('a.mar');
    holding = true;
    const answers = Promise.all([predict('a'), predict('a')]);
    const removed = server.unregister('a', undefined);
    expect(await predict('a')).toBe('MODEL_NOT_FOUND');
    holding = false;
    setImmediate(() => workers[0]!.answerAll());
    expect(await answers).toEqual(['1.0', '1.0']);
    await removed;
    expect(workers[0]!.ended).toBe(true);
    expect(await code(register('a.mar'))).toBe('ok');
  });

  it('the default version while there are others is refused', async () => {
    await mar('a1.mar', 'a', '1.0');
    await mar('a2.mar', 'a', '2.0');
    await register('a1.mar');
    await register('a2.mar');
    expect(await code(server.unregister('a', '1.0'))).toBe('INVALID_MODEL_VERSION');
    await server.setDefault('a', '2.0');
    expect(await predict('a')).toBe('2.0');
    expect(await code(server.unregister('a', '1.0'))).toBe('ok');
    expect(await code(server.unregister('a', undefined))).toBe('ok');
    expect(await code(server.unregister('a', undefined))).toBe('MODEL_NOT_FOUND');
  });
});

describe('scaling', () => {
  it('down to nothing answers what waits', async () => {
    await mar('a.mar', 'a');
    await register('a.mar');
    holding = true;
    const answers = Promise.all([1, 2, 3, 4].map(() => predict('a')));
    while (workers[0]!.waiting.length < 2) await tick();
    const scaled = server.scale('a', undefined, { minWorkers: 0, maxWorkers: 0, synchronous: true });
    while (workers[0]!.waiting.length > 1) await tick();
    workers[0]!.answerAll();
    await scaled;
    expect(await answers).toEqual(['1.0', ...Array<string>(3).fill('MODEL_NOT_READY')]);
  });

  it('up to workers that cannot load keeps the old ones', async () => {
    await mar('a.mar', 'a');
    await register('a.mar');
    broken.add('a');
    expect(await code(server.scale('a', undefined, { minWorkers: 3, maxWorkers: 3, synchronous: true }))).toBe(
      'WORKER_START_FAILED',
    );
    expect(server.models[0]!.pool.min).toBe(1);
    expect(await predict('a')).toBe('1.0');
  });
});

it('a server that closes answers what it accepted and refuses the rest', async () => {
  await mar('a.mar', 'a');
  await register('a.mar');
  holding = true;
  const accepted = predict('a');
  const closed = server.close(10_000);
  expect(await predict('a')).toBe('DRAINING');
  holding = false;
  setImmediate(() => workers[0]!.answerAll());
  expect(await accepted).toBe('1.0');
  await closed;
});

describe('start-up', () => {
  it('loads what can be loaded and tells what cannot', async () => {
    await mar('a.mar', 'a');
    await mar('b.mar', 'b');
    broken.add('b');
    const config = configure({ load_models: 'a.mar,b.mar,c.mar' });
    const events: StartupProgress[] = [];
    const failures = await loadStartupModels(server, config, 1, (event) => events.push(event));
    expect(failures).toHaveLength(2);
    expect(failures.join(' ')).toMatch(/b\.mar: no vocabulary.*c\.mar/);
    expect(events.filter(({ state }) => state === 'ready').map(({ model }) => model)).toEqual(['a']);
    expect(await predict('a')).toBe('1.0');
    expect(server.serverReadiness('serving', undefined).problems.join()).toContain('no vocabulary');
    expect(server.health().problems.map(({ model }) => model)).toContain('c.mar');
  });

  it('all means every archive of the store, with the settings of models', async () => {
    await mar('a.mar', 'a');
    await mar('b.mar', 'b');
    const models = JSON.stringify({ a: { '1.0': { marName: 'a.mar', minWorkers: 2, maxWorkers: 3, batchSize: 7 } } });
    const config = configure({ load_models: 'all', models });
    expect(await loadStartupModels(server, config, 1)).toEqual([]);
    const [a] = await server.describe('a', undefined, false);
    expect(a).toMatchObject({ minWorkers: 2, maxWorkers: 3, batchSize: 7, loadedAtStartup: true });
    const [b] = await server.describe('b', undefined, false);
    expect(b).toMatchObject({ minWorkers: 1, batchSize: 1 });
    expect(server.health().healthy).toBe(true);
  });
});
