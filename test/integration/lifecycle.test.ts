import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, messageOf, post, send } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const handler = { handler: 'whole-batch' };

let server: TestServer;
const register = (query: string) => send('POST', `${server.management}/models?${query}`);
const predict = (path: string) => post(`${server.inference}/predictions/${path}`, { value: 1 });

beforeAll(async () => {
  server = await startServer({ models: { scaled: { ...handler, config: { minWorkers: 1, maxWorkers: 1 } } } });
});
afterAll(() => server.stop());

describe('what is wrong with an archive itself is refused at once, without any worker', () => {
  it.each([
    ['a handler that is not in it', { manifest: { handler: 'absent.js' } }, 'absent.js'],
    ['a model that is not in it', { manifest: { serializedFile: 'absent.onnx' } }, 'absent.onnx'],
    [
      'a Python handler',
      { manifest: { handler: 'model.py' }, files: { 'model.py': 'def handle(data, context): pass' } },
      'model.py',
    ],
    ['an unknown runtime', { files: {}, manifest: {} }, 'cobol'],
  ])('%s', async (_, mar, named) => {
    const name = `static-${named.replace(/\W/g, '')}`;
    await server.addModel(name, { ...handler, ...mar });
    const runtime = named === 'cobol' ? '&runtime=cobol' : '';
    const answer = await register(`url=${name}.mar&initial_workers=0${runtime}`);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(messageOf(answer)).toContain(named);
    expect((await get(`${server.management}/models/${name}`)).status).toBe(404);
  });

  it('an archive without a manifest', async () => {
    await writeFile(join(server.store, 'junk.mar'), 'no zip at all');
    expect((await register('url=junk.mar&initial_workers=0')).status).toBe(400);
  });

  it('what only loading can show stands in describe', async () => {
    await server.addModel('corrupt', { files: { 'model.onnx': 'not a model' }, manifest: { serializedFile: 'model.onnx' } });
    const answer = await register('url=corrupt.mar&initial_workers=1&synchronous=false');
    // Either the archive is checked well enough to refuse it, or the reason is shown.
    if (answer.status === 202) {
      const { workers, lastError } = await until(async () => {
        const model = await server.describe('corrupt');
        return model.lastError !== undefined || model.workers.some((worker) => worker.lastError !== undefined)
          ? model
          : undefined;
      }, 'describe shows an error');
      expect(lastError ?? workers[0]?.lastError).toMatch(/model\.onnx|protobuf/i);
    } else {
      expect(answer.status).toBe(400);
      expect(messageOf(answer)).toContain('model.onnx');
    }
  });
});

describe('start-up models', () => {
  const three = { 'a-b': handler, second: handler, third: handler };
  const listed = async (own: TestServer) => {
    const { json } = await get(`${own.management}/models`);
    return (json as { models: Array<{ modelName: string }> }).models.map(({ modelName }) => modelName);
  };

  it.each([
    ['all', 'all', ['a-b', 'second', 'third']],
    ['a list with names and blanks', 'a-b.mar,renamed=second.mar, third.mar', ['a-b', 'renamed', 'third']],
  ])('%s are all loaded', async (_, load, expected) => {
    const own = await startServer({ models: three, config: { load_models: load } });
    try {
      expect(await listed(own)).toEqual(expected);
      for (const name of expected) expect((await post(`${own.inference}/predictions/${name}`, { value: 1 })).status).toBe(200);
    } finally {
      await own.stop();
    }
  });

  it('the command line takes several in one text', async () => {
    const own = await startServer({
      models: three,
      config: { load_models: '' },
      args: ['--models', 'a-b.mar second=second.mar'],
    });
    try {
      expect(await listed(own)).toEqual(['a-b', 'second']);
    } finally {
      await own.stop();
    }
  });

  it('an unknown one is named, the others are served, and the server is not ready', async () => {
    const own = await startServer({ models: three, config: { load_models: 'second.mar,nosuch.mar' }, mayFail: true });
    try {
      expect(own.failures).toHaveLength(1);
      expect(own.failures[0]).toContain('nosuch.mar');
      expect((await post(`${own.inference}/predictions/second`, { value: 1 })).status).toBe(200);
      const ready = await get(`${own.inference}/health/ready`);
      expect(ready.status).toBe(503);
      expect(ready.text).toContain('nosuch.mar');
      expect((await get(`${own.inference}/health/live`)).status).toBe(200);
    } finally {
      await own.stop();
    }
  });
});

it('keeps the rules of versions and of the default version', async () => {
  const version = async (number: string, file: string, name: string) => {
    const source = `export default { handle: (batch) => batch.map(() => '${number}') };`;
    await server.addModel(file, { handlerSource: source, modelName: name, version: number });
    expect((await register(`url=${file}.mar&initial_workers=1&synchronous=true`)).status).toBe(200);
  };
  await version('1.0', 'v1', 'versions');
  await version('2.0', 'v2', 'versions');
  expect((await predict('versions')).text).toBe('1.0');
  expect((await predict('versions/2.0')).text).toBe('2.0');
  const setDefault = (number: string) => send('PUT', `${server.management}/models/versions/${number}/set-default`);
  expect((await setDefault('9.9')).status).toBe(404);
  expect((await predict('versions')).text).toBe('1.0');
  expect((await setDefault('2.0')).status).toBe(200);
  expect((await predict('versions')).text).toBe('2.0');

  const dated = '2024-03-20-18:11';
  await version(dated, 'v3', 'versions');
  expect((await predict(`versions/${encodeURIComponent(dated)}`)).text).toBe(dated);
  const remove = (number: string) => send('DELETE', `${server.management}/models/versions/${encodeURIComponent(number)}`);
  expect((await remove('2.0')).status).toBe(403);
  expect((await remove(dated)).status).toBe(200);
  expect((await remove('1.0')).status).toBe(200);
  expect((await remove('2.0')).status).toBe(200);
  expect((await predict('versions')).status).toBe(404);
});

describe('worker counts', () => {
  const scale = (query: string) => send('PUT', `${server.management}/models/scaled?${query}`);

  it.each(['min_worker=3&max_worker=1', 'min_worker=-1', 'min_worker=abc', 'min_worker=100000'])(
    '%s is refused',
    async (query) => {
      const { pid } = (await server.describe('scaled')).workers[0]!;
      const answer = await scale(`${query}&synchronous=true`);
      expect(answer.status).toBe(400);
      expect(messageOf(answer)).toMatch(/min_worker|max_worker/);
      const { workers } = await server.describe('scaled');
      expect(workers.map((worker) => worker.pid)).toEqual([pid]);
    },
  );

  it('an empty value counts as none', async () => {
    expect((await scale('min_worker=&synchronous=true')).status).toBe(200);
    expect((await server.describe('scaled')).minWorkers).toBe(1);
  });
});

describe('many workers', () => {
  it('five models at once, and up and down again', async () => {
    const names = ['m1', 'm2', 'm3', 'm4', 'm5'];
    for (const name of names) await server.addModel(name, { handler: 'rows', model: 'identity-fp32.onnx' });
    const answers = await Promise.all(names.map((name) => register(`url=${name}.mar&initial_workers=2&synchronous=true`)));
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200));
    for (const name of names) expect((await server.untilReady(name)).workers).toHaveLength(2);
    for (const name of names.slice(1)) expect((await send('DELETE', `${server.management}/models/${name}`)).status).toBe(200);
    for (const count of [8, 1, 8, 1, 8, 1]) {
      const query = `min_worker=${count}&max_worker=${count}&synchronous=true`;
      expect((await send('PUT', `${server.management}/models/m1?${query}`)).status).toBe(200);
      const { workers } = await server.untilReady('m1', count);
      expect(workers.filter(({ restarts }) => restarts > 0)).toEqual([]);
    }
    expect((await post(`${server.inference}/predictions/m1`, { rows: [[1, 2, 3, 4]] })).status).toBe(200);
  });

  it('a model is removed while it computes: every request gets an answer, nothing crashes', async () => {
    const body = { inputs: [{ name: 'iterations', datatype: 'INT64', shape: [1, 1], data: [100] }] };
    for (let round = 0; round < 10; round++) {
      await server.addModel('passing', { model: 'slow.onnx' });
      expect((await register('url=passing.mar&initial_workers=2&synchronous=true')).status).toBe(200);
      const requests = Array.from({ length: 10 }, () => post(`${server.inference}/predictions/passing`, body));
      // The first answer shows that the others are being computed.
      await Promise.race(requests);
      expect((await send('DELETE', `${server.management}/models/passing`)).status).toBe(200);
      for (const { status } of await Promise.all(requests)) expect([200, 404, 503]).toContain(status);
    }
    expect((await predict('scaled')).status).toBe(200);
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
  });
});
