import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, post, send } from '../../helpers/client.js';
import { startServer, type TestServer } from '../../helpers/server.js';
import { parentOf } from '../../helpers/process.js';
import { until } from '../../helpers/until.js';

// What was observed of TorchServe's workers when they die, and of its health while they do.

const one = { minWorkers: 1, maxWorkers: 1 };
/** Cannot be loaded while the file is there that its configuration names. */
const fragile = `
import { existsSync } from 'node:fs';
export default {
  load(ctx) { if (existsSync(ctx.model.config.breaks)) throw new Error('broken on purpose'); },
  handle: (batch) => batch.map(() => 'fine'),
};`;
let server: TestServer;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onnxserve-scenarios-'));
  server = await startServer({
    models: {
      kit: { handler: 'kit', config: { ...one, kit: {} } },
      retry: { handlerSource: fragile, config: { ...one, maxRetryTimeoutInSec: 2, breaks: join(folder, 'breaks') } },
    },
  });
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);
const ping = async () => (await get(`${server.inference}/ping`)).status;
const worker = async (model: string) => (await server.describe(model)).workers[0]!;
function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
/** The worker once another process fills its place. */
const replaced = (model: string, pid: number) =>
  until(async () => {
    const now = await worker(model);
    return now.status === 'READY' && now.pid !== pid ? now : undefined;
  }, `the worker of ${model} is replaced`);

describe('a worker that dies', () => {
  it.each([
    ['crash', { code: 1 }, 'worker-died'],
    ['sysexit', { code: 3 }, 'worker-died'],
    ['kill9', {}, 'host-out-of-memory'],
    ['crash', { code: 137 }, 'host-out-of-memory'],
  ])(
    '%s %j: the request gets 500 for %s, queued ones wait for the replacement, which has the place and another process',
    async (mode, args, reason) => {
      const before = await worker('kit');
      const died = predict('kit', { mode, ...args });
      const behind = Promise.all([predict('kit', { mode: 'pid' }), predict('kit', { mode: 'pid' })]);
      expect(await died).toMatchObject({ status: 500, json: { code: 500, type: 'InternalServerException', reason } });
      for (const answer of await behind) expect(answer.status).toBe(200);
      const after = await replaced('kit', before.pid);
      expect(after).toMatchObject({ id: before.id, startTime: (before as unknown as { startTime: string }).startTime });
      expect(after.restarts).toBe(before.restarts + 1);
    },
  );

  it('again and again is replaced each time, and health holds', async () => {
    for (let round = 0; round < 3; round++) {
      const { pid } = await worker('kit');
      process.kill(pid, 'SIGKILL');
      expect(await ping()).toBe(200);
      await replaced('kit', pid);
      expect((await predict('kit', { mode: 'noop' })).text).toBe('OK');
    }
  });

  it('is told by the log, with model, worker and signal', async () => {
    const { pid, id } = await worker('kit');
    const before = server.logs().length;
    process.kill(pid, 'SIGKILL');
    await replaced('kit', pid);
    // Lines arrive a little after what they tell of.
    const said = await until(async () => {
      const lines = server.logs().slice(before);
      return /loaded in \d+ ms/.test(lines) ? lines : undefined;
    }, 'the log tells that it is back');
    const line = said.split('\n').find((text) => text.includes('SIGKILL'));
    expect(line).toContain(`W-${id}-kit_1.0`);
  });
});

describe('a worker that cannot come back', () => {
  it('is retried for its window, makes health false after it, and is filled again only by scaling', async () => {
    expect(await ping()).toBe(200);
    const { pid } = await worker('retry');
    await writeFile(join(folder, 'breaks'), '');
    process.kill(pid, 'SIGKILL');
    await until(async () => ((await worker('retry')).status === 'UNLOADING' ? true : undefined), 'it is seen to be gone');
    const unhealthy = await until(async () => {
      const answer = await get(`${server.inference}/ping`);
      return answer.status === 500 ? answer : undefined;
    }, 'the window is over');
    expect(unhealthy.json).toMatchObject({ status: 'Unhealthy', problems: [{ model: 'retry' }] });
    const given = await until(async () => {
      const now = await worker('retry');
      return now.state === 'gave-up' ? now : undefined;
    }, 'it is given up');
    expect(given).toMatchObject({ status: 'UNLOADING', lastError: expect.stringContaining('broken on purpose') });
    expect((await predict('kit', { mode: 'noop' })).text).toBe('OK');
    expect(await predict('retry', {})).toMatchObject({ status: 503 });

    await rm(join(folder, 'breaks'));
    expect(await ping()).toBe(500);
    // The number that it has already does, unlike with TorchServe, where only taking the worker away and adding it helped.
    const scaled = await send('PUT', `${server.management}/models/retry?min_worker=1&max_worker=1&synchronous=true`);
    expect(scaled.status).toBe(200);
    expect(await ping()).toBe(200);
    expect((await predict('retry', {})).text).toBe('fine');
  });
});

it('SIGINT ends the server as SIGTERM does: what was accepted is answered', async () => {
  const own = await startServer({ models: { kit: { handler: 'kit', config: { ...one, kit: {} } } } });
  const { workers } = await own.describe('kit');
  const front = await parentOf(workers[0]!.pid);
  const accepted = [0, 1].map(() => post(`${own.inference}/predictions/kit`, { mode: 'sleep', ms: 700 }));
  await until(async () => {
    const [model] = (await (await fetch(`${own.management}/models/kit`)).json()) as Array<{
      jobQueueStatus: { pendingRequests: number };
    }>;
    const { text } = await get(`${own.metrics}/metrics`);
    const inFlight = Number(/^onnxserve_in_flight\{[^}]*model="kit"[^}]*\} (\d+)/m.exec(text)?.[1]);
    return inFlight + model!.jobQueueStatus.pendingRequests === 2 ? true : undefined;
  }, 'both are accepted');
  process.kill(front, 'SIGINT');
  expect((await Promise.all(accepted)).map(({ text }) => text)).toEqual(['slept', 'slept']);
  await until(async () => (alive(front) ? undefined : true), 'it has ended');
  expect(await own.stop()).toBe(0);
});
