import { describe, expect, it, onTestFinished } from 'vitest';
import { get, post } from '../helpers/client.js';
import { makeGate } from '../helpers/gate.js';
import { GrpcClient } from '../helpers/grpc.js';
import { type ServerOptions, startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const one = { minWorkers: 1, maxWorkers: 1 };

async function start(options: ServerOptions): Promise<TestServer> {
  const server = await startServer(options);
  onTestFinished(async () => void (await server.stop()));
  return server;
}

interface ReadyBody {
  readonly ready: boolean;
  readonly phase: string;
  readonly problems: readonly string[];
  readonly models: ReadonlyArray<{ name: string; state: string; readyWorkers: number; minWorkers: number }>;
}
const readiness = async (server: TestServer) => {
  const { status, json } = await get(`${server.inference}/health/ready`);
  return { status, ...(json as ReadyBody) };
};
const untilStatus = (url: string, wanted: number) =>
  until(async () => {
    const answer = await get(url);
    return answer.status === wanted ? answer : undefined;
  }, `${url} answers ${wanted}`);
const grpcHealth = async (server: TestServer, service = '') => {
  const client = new GrpcClient(server.grpcInference);
  const { messages } = await client.call('health', 'Check', { service });
  client.close();
  return (messages[0] as { status: string }).status;
};

describe('while start-up models load', () => {
  it('the front lives, nothing is ready, and requests get 503; then all become ready without a request', async () => {
    const gate = await makeGate('hang');
    const server = await start({
      at: 'listening',
      models: { m: { handlerSource: gate.handlerSource, config: one }, quick: { handler: 'whole-batch', config: one } },
    });
    const probes = ['/v2/health/ready', '/health/ready', '/v2/models/m/ready', '/v2/models/m/versions/1.0/ready', '/v1/models/m'];
    expect((await get(`${server.inference}/v2/health/live`)).status).toBe(200);
    await until(async () => {
      const { models } = await readiness(server);
      return models.some(({ name, state }) => name === 'quick' && state === 'ready') && models.length === 2 ? true : undefined;
    }, 'the quick one is loaded and the other one known');
    for (const probe of probes) expect([probe, (await get(`${server.inference}${probe}`)).status]).toEqual([probe, 503]);
    const body = await readiness(server);
    expect(body).toMatchObject({ ready: false, phase: 'loading' });
    expect(body.problems.join()).toContain('"m"');
    expect(body.models.find(({ name }) => name === 'm')).toMatchObject({ state: 'loading', readyWorkers: 0, minWorkers: 1 });
    expect((await get(`${server.inference}/v1/models/m`)).json).toMatchObject({ name: 'm', ready: false, state: 'loading' });
    const early = await post(`${server.inference}/predictions/m`, { value: 1 });
    expect(early.status).toBe(503);
    expect(early.json).toMatchObject({ reason: 'workers-starting' });
    expect(early.headers.get('retry-after')).toBe('1');
    // One model is loaded, and its clients need not wait for the other.
    expect((await post(`${server.inference}/predictions/quick`, { value: 1 })).status).toBe(200);
    expect(await grpcHealth(server)).toBe('NOT_SERVING');
    expect(await grpcHealth(server, 'm')).toBe('NOT_SERVING');
    expect(await grpcHealth(server, 'quick')).toBe('SERVING');

    await gate.set('load');
    for (const probe of probes) await untilStatus(`${server.inference}${probe}`, 200);
    expect((await get(`${server.inference}/v1/models/m`)).json).toEqual({ name: 'm', ready: true });
    expect((await get(`${server.inference}/v2/health/ready`)).json).toEqual({ ready: true });
    expect(await readiness(server)).toMatchObject({ ready: true, phase: 'serving', problems: [] });
    expect(await grpcHealth(server)).toBe('SERVING');
    expect((await get(`${server.inference}/v2/models/nobody/ready`)).status).toBe(404);
  });

  it('a model that cannot be loaded never lets the server be ready, from the first moment to the end of its window', async () => {
    const server = await start({
      at: 'listening',
      models: {
        good: { handler: 'whole-batch', config: { minWorkers: 2, maxWorkers: 2 } },
        bad: { handler: 'load-fails', config: { ...one, maxRetryTimeoutInSec: 1 } },
      },
    });
    const seen = new Set<number>();
    await until(async () => {
      seen.add((await get(`${server.inference}/health/ready`)).status);
      const { status, json } = await get(`${server.management}/models/bad`);
      if (status !== 200) return undefined;
      const [model] = json as Array<{ workers: Array<{ state: string }> }>;
      return model?.workers[0]?.state === 'gave-up' ? true : undefined;
    }, 'it is given up');
    expect([...seen]).toEqual([503]);
    const ready = await get(`${server.inference}/health/ready`);
    expect(ready.text).toContain('the vocabulary of 1234 words is missing');
    expect(ready.status).toBe(503);
    const ping = await get(`${server.inference}/ping`);
    expect(ping.status).toBe(500);
    expect(ping.json).toMatchObject({ status: 'Unhealthy', problems: [{ model: 'bad' }] });
    expect((await get(`${server.inference}/v2/models/good/ready`)).status).toBe(200);
    expect((await get(`${server.inference}/health/live`)).status).toBe(200);
  });

  it('the inference listeners stay closed when listen_after_loading says so', async () => {
    const gate = await makeGate('fail');
    const server = await start({
      mayFail: true,
      models: { m: { handlerSource: gate.handlerSource, config: one } },
      config: { listen_after_loading: true },
    });
    expect([server.inference, server.grpcInference]).toEqual(['', '']);
    expect((await server.describe('m')).lastError).toContain('the vocabulary is missing');
    await gate.set('load');
    const inference = await until(async () => /listening inference=(http:\/\/[\d.]+:\d+)/.exec(server.logs())?.[1], 'it listens');
    expect((await get(`${inference}/health/ready`)).status).toBe(200);
  });

  it('and open together with the last model otherwise', async () => {
    const server = await start({
      models: { m: { handler: 'whole-batch', config: one } },
      config: { listen_after_loading: true },
    });
    expect((await get(`${server.inference}/health/ready`)).status).toBe(200);
    expect(await grpcHealth(server)).toBe('SERVING');
  });
});

describe('after a death', () => {
  it('a replacement that comes in time is a blip; one that fails or does not come makes it unready until it is back', async () => {
    const gate = await makeGate('load', 2000);
    const server = await start({ models: { m: { handlerSource: gate.handlerSource, config: one } } });
    const kill = async () => {
      const { pid } = (await server.untilReady('m')).workers[0]!;
      process.kill(pid, 'SIGKILL');
      await until(async () => ((await server.describe('m')).workers[0]?.pid === pid ? undefined : true), 'the death is noticed');
    };
    await kill();
    const during = new Set<number>();
    let last = post(`${server.inference}/predictions/m`, { value: 7 });
    await until(async () => {
      for (const probe of ['/health/ready', '/v2/models/m/ready', '/ping'])
        during.add((await get(`${server.inference}${probe}`)).status);
      return (await server.describe('m')).workers[0]?.status === 'READY' ? true : undefined;
    }, 'the replacement serves');
    expect([...during]).toEqual([200]);
    expect((await last).status).toBe(200);

    await gate.set('hang');
    await kill();
    expect((await readiness(server)).models[0]).toMatchObject({ state: 'recovering' });
    const overdue = await untilStatus(`${server.inference}/health/ready`, 503);
    expect(overdue.json).toMatchObject({ phase: 'serving', models: [{ name: 'm', state: 'failed' }] });
    expect((await get(`${server.inference}/v2/models/m/ready`)).status).toBe(503);
    expect((await get(`${server.inference}/health/live`)).status).toBe(200);
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
    await gate.set('load');
    await untilStatus(`${server.inference}/health/ready`, 200);

    const client = new GrpcClient(server.grpcInference);
    const watch = client.stream('health', 'Watch', { service: 'm' });
    await watch.until(1);
    await gate.set('fail');
    last = post(`${server.inference}/predictions/m`, { value: 8, ms: 60_000 });
    await kill();
    expect((await untilStatus(`${server.inference}/health/ready`, 503)).text).toContain('the vocabulary is missing');
    expect(await watch.until(2)).toEqual([{ status: 'SERVING' }, { status: 'NOT_SERVING' }]);
    expect((await last).status).toBe(503);
    watch.cancel();
    client.close();
    await gate.set('load');
    await untilStatus(`${server.inference}/v2/health/ready`, 200);
  });

  it('a model that never served takes nobody out of rotation', async () => {
    const gate = await makeGate('fail');
    const server = await start({ models: { m: { handler: 'whole-batch', config: one } } });
    await server.addModel('late', { handlerSource: gate.handlerSource, config: one });
    const answer = await fetch(`${server.management}/models?url=late.mar&initial_workers=1&synchronous=false`, {
      method: 'POST',
    });
    expect(answer.status).toBe(202);
    await until(async () => (await server.describe('late')).lastError, 'it has failed');
    expect((await readiness(server)).ready).toBe(true);
    expect((await get(`${server.inference}/v2/models/late/ready`)).status).toBe(503);
  });
});

it('a spare worker takes over at once, and the dead one is the next spare', async () => {
  const gate = await makeGate('load');
  const server = await start({
    models: { m: { handlerSource: gate.handlerSource, config: { ...one, spareWorkers: 1 } } },
  });
  const spare = await until(async () => (await server.describe('m')).workers.find(({ state }) => state === 'spare'), 'a spare');
  const serving = (await server.describe('m')).workers.find(({ state }) => state === 'ready')!;
  const pidOf = async () => ((await post(`${server.inference}/predictions/m`, { value: 1 })).json as { pid: number }).pid;
  expect(await pidOf()).toBe(serving.pid);
  // No replacement can come, so whoever answers was there before.
  await gate.set('hang');
  process.kill(serving.pid, 'SIGKILL');
  expect(await pidOf()).toBe(spare.pid);
  expect((await readiness(server)).ready).toBe(true);
  await gate.set('load');
  const next = await until(
    async () => (await server.describe('m')).workers.find(({ state }) => state === 'spare'),
    'the next spare',
  );
  expect(next.id).toBe(serving.id);
});
