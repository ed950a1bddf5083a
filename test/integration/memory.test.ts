import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../conformance/lib/archives.mjs';
import { type Answer, get, messageOf, post, send } from '../helpers/client.js';
import { memoryOf, parentOf, threadsOf } from '../helpers/process.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';
import { type ZipEntry, zipBytes } from '../helpers/zip-bytes.js';

const one = { minWorkers: 1, maxWorkers: 1 };
const listed = async (folder: string) => (await readdir(folder, { recursive: true })).sort();
const values = (count: number) => Array.from({ length: count }, (_, value) => value);

let server: TestServer;
let temp: string;
const register = (query: string) => send('POST', `${server.management}/models?${query}&synchronous=true`);
const remove = (name: string) => send('DELETE', `${server.management}/models/${name}`);

beforeAll(async () => {
  server = await startServer({ models: { keeps: { handler: 'whole-batch', config: one } } });
  temp = join(dirname(server.store), 'tmp');
});
afterAll(() => server.stop());

describe('archives over the management API', () => {
  const harmless: readonly ZipEntry[] = [
    { name: 'handler.mjs', data: 'export default { handle: (batch) => batch.map(() => 1) };' },
    {
      name: 'MAR-INF/MANIFEST.json',
      data: manifest({ modelName: 'evil', modelVersion: '1.0', handler: 'handler.mjs' }),
    },
  ];
  it.each<readonly [string, ZipEntry]>([
    ['climbs', { name: '../../slipped.txt', data: 'x' }],
    ['is absolute', { name: '/tmp/onnxserve-slipped.txt', data: 'x' }],
    ['is of Windows', { name: 'C:\\slipped.txt', data: 'x' }],
    ['links outside', { name: 'link', data: '/etc/passwd', mode: 0o120777 }],
  ])('an entry that %s: 400, nothing is written, nothing is left', async (_, entry) => {
    const before = await listed(dirname(server.store));
    await writeFile(join(server.store, 'evil.mar'), zipBytes([...harmless, entry]));
    const answer = await register('url=evil.mar&initial_workers=1');
    await rm(join(server.store, 'evil.mar'));
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain(entry.name.replaceAll('\\', '/'));
    expect(await listed(dirname(server.store))).toEqual(before);
    expect(await readdir(tmpdir())).not.toContain('onnxserve-slipped.txt');
  });

  it('the same archive without that entry is served', async () => {
    await writeFile(join(server.store, 'evil.mar'), zipBytes(harmless));
    expect((await register('url=evil.mar&initial_workers=1')).status).toBe(200);
    expect((await remove('evil')).status).toBe(200);
  });
});

describe('temporary space', () => {
  const heavy = { handler: 'whole-batch', files: { 'weights.bin': randomBytes(5_000_000) } };

  it('comes back each time a model goes', async () => {
    await server.addModel('heavy', heavy);
    const before = await listed(temp);
    for (let round = 0; round < 10; round++) {
      expect((await register('url=heavy.mar&initial_workers=1')).status).toBe(200);
      expect((await listed(temp)).filter((path) => path.endsWith('weights.bin'))).toHaveLength(1);
      expect((await remove('heavy')).status).toBe(200);
    }
    expect(await listed(temp)).toEqual(before);
  });

  it('of a killed server is cleaned by the next one; a stopped one leaves nothing', async () => {
    const shared = await mkdtemp(join(tmpdir(), 'onnxserve-shared-'));
    const options = { models: { heavy: { ...heavy, config: one } }, environment: { TMPDIR: shared } };
    const weights = async () => (await listed(shared)).filter((path) => path.endsWith('weights.bin'));
    try {
      const killed = await startServer(options);
      const { pid } = (await killed.describe('heavy')).workers[0]!;
      process.kill(await parentOf(pid), 'SIGKILL');
      await killed.stop();
      const [left, ...others] = await weights();
      expect(left).toBeDefined();
      expect(others).toEqual([]);
      const next = await startServer(options);
      const own = await weights();
      expect(own).toHaveLength(1);
      expect(own[0]).not.toBe(left);
      expect(await next.stop()).toBe(0);
      expect(await weights()).toEqual([]);
    } finally {
      await rm(shared, { recursive: true, force: true });
    }
  });
});

describe('threads of workers', () => {
  const threads = async (name: string) => Promise.all((await server.describe(name)).workers.map(({ pid }) => threadsOf(pid)));
  const add = async (name: string, workers: number, intraOpNumThreads: number | undefined) => {
    const onnx = intraOpNumThreads === undefined ? {} : { onnx: { intraOpNumThreads } };
    const config = { minWorkers: workers, maxWorkers: workers, ...onnx };
    await server.addModel(name, { model: 'slow.onnx', config });
    expect((await register(`url=${name}.mar`)).status).toBe(200);
    const body = { inputs: [{ name: 'iterations', datatype: 'INT64', shape: [1, 1], data: [1] }] };
    await Promise.all(values(workers * 2).map(() => post(`${server.inference}/predictions/${name}`, body)));
    const found = await threads(name);
    expect((await remove(name)).status).toBe(200);
    return found;
  };

  it.runIf(process.platform === 'linux')('are as many as the setting says, and few by default', async () => {
    const [single = 0] = await add('single', 1, 1);
    const [five = 0] = await add('five', 1, 5);
    // Four more for each session that the worker holds, of which there are two at most.
    expect([4, 8]).toContain(five - single);
    // Eight workers share the cores, so that together they run no more threads than there are; at least one each.
    const each = Math.max(1, Math.floor(availableParallelism() / 8));
    const many = await add('many', 8, undefined);
    expect(many).toHaveLength(8);
    expect(Math.max(...many)).toBeLessThanOrEqual(single + 2 * (each - 1));
  });
});

describe('sessions that are released while they run', () => {
  const body = { inputs: [{ name: 'iterations', datatype: 'INT64', shape: [1, 1], data: [30] }] };
  /** Keeps a model under full load until told to end. @returns every answer */
  function load(name: string) {
    const state = { ended: false };
    const answers: Answer[] = [];
    const client = async () => {
      while (!state.ended) answers.push(await post(`${server.inference}/predictions/${name}`, body));
    };
    const done = Promise.all(values(12).map(client));
    return {
      answers,
      end: async () => {
        state.ended = true;
        await done;
      },
    };
  }

  it('scaling down and up again ten times loses no answer', async () => {
    await server.addModel('scaled', { model: 'slow.onnx' });
    expect((await register('url=scaled.mar&initial_workers=2')).status).toBe(200);
    const running = load('scaled');
    for (const count of values(10).map((round) => 1 + (round % 2))) {
      const before = running.answers.length;
      const query = `min_worker=${count}&max_worker=${count}&synchronous=true`;
      expect((await send('PUT', `${server.management}/models/scaled?${query}`)).status).toBe(200);
      await until(async () => (running.answers.length > before + 3 ? true : undefined), 'the load goes on');
    }
    await running.end();
    expect(running.answers.filter(({ status }) => status !== 200)).toEqual([]);
    const { workers } = await server.describe('scaled');
    expect(workers.filter(({ restarts }) => restarts > 0)).toEqual([]);
    expect((await remove('scaled')).status).toBe(200);
  });

  it('removing the model 20 times under full load: 200, 404 or 503, and it comes back each time', async () => {
    await server.addModel('comes', { model: 'slow.onnx' });
    const running = load('comes');
    for (let round = 0; round < 20; round++) {
      expect((await register('url=comes.mar&initial_workers=1')).status).toBe(200);
      const before = running.answers.filter(({ status }) => status === 200).length;
      await until(
        async () => (running.answers.filter(({ status }) => status === 200).length > before ? true : undefined),
        'it serves',
      );
      expect((await remove('comes')).status).toBe(200);
    }
    await running.end();
    expect([...new Set(running.answers.map(({ status }) => status))].filter((it) => ![200, 404, 503].includes(it))).toEqual([]);
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
  });
});

it.runIf(process.platform === 'linux')('many cycles of a model leave neither processes nor memory of the front', async () => {
  const { workers } = await server.describe('keeps');
  const front = await parentOf(workers[0]!.pid);
  await server.addModel('cycle', { model: 'identity-fp32.onnx' });
  const cycle = async (count: number) => {
    for (let round = 0; round < count; round++) {
      expect((await register('url=cycle.mar&initial_workers=1')).status).toBe(200);
      expect((await post(`${server.inference}/predictions/cycle`, { input: [[1, 2, 3, 4]] })).status).toBe(200);
      expect((await remove('cycle')).status).toBe(200);
    }
    return await memoryOf(front);
  };
  const files = async () => (await readdir(`/proc/${front}/fd`)).length;
  const warm = await cycle(6);
  const open = await files();
  const later = await cycle(12);
  expect(later - warm).toBeLessThan(40_000_000);
  expect(await files()).toBeLessThanOrEqual(open + 3);
  expect((await server.describe('keeps')).workers[0]!.pid).toBe(workers[0]!.pid);
});
