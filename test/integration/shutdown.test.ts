import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { get, metric, post, send } from '../helpers/client.js';
import { makeGate } from '../helpers/gate.js';
import { GrpcClient } from '../helpers/grpc.js';
import { type ServerOptions, startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const one = { minWorkers: 1, maxWorkers: 1 };
const sleepy = `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export default {
  preprocess: (request) => request.json(),
  inference: async (batch) => { await sleep(Math.max(...batch.map(({ ms }) => ms ?? 0))); return batch; },
  async postprocess(order) {
    if (order.pieces === undefined) return { value: order.value };
    return (async function* () {
      for (let piece = 0; piece < order.pieces; piece++) { yield 'piece ' + piece + '\\n'; await sleep(100); }
    })();
  },
};`;

async function start(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const server = await startServer({ models: { m: { handlerSource: sleepy, config: { ...one, batchSize: 8 } } }, ...options });
  onTestFinished(async () => void (await server.stop()));
  return server;
}
const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const untilInFlight = (server: TestServer, count: number) =>
  until(
    async () => ((await metric(server.metrics, 'onnxserve_in_flight', { model: 'm' })) >= count ? true : undefined),
    `${count} in flight`,
  );
/** A bare connection. @returns what tells when the server has ended it */
async function raw(url: string, text: string): Promise<{ socket: Socket; closed: Promise<void> }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.on('error', () => undefined);
  socket.resume();
  if (text !== '') socket.write(text);
  return { socket, closed: new Promise((resolve) => socket.once('close', () => resolve())) };
}

it('REST, a stream and gRPC that were accepted finish; bare and half-open connections hold nothing; code 0', async () => {
  const server = await start();
  const { workers } = await server.describe('m');
  const unused = await raw(server.inference, '');
  const half = await raw(server.inference, 'POST /predictions/m HTTP/1.1\r\nHost: x\r\nContent-Le');
  const client = new GrpcClient(server.grpcInference);
  const body = Buffer.from(JSON.stringify({ value: 3, ms: 500 }));
  const whole = [1, 2].map((value) => post(`${server.inference}/predictions/m`, { value, ms: 500 }));
  const stream = post(`${server.inference}/predictions/m`, { pieces: 10 });
  const call = client.call('inference', 'Predictions', { model_name: 'm', input: { data: body } });
  await untilInFlight(server, 4);
  process.kill(server.pid, 'SIGTERM');
  expect((await Promise.all(whole)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await stream).text).toBe(Array.from({ length: 10 }, (_, piece) => `piece ${piece}\n`).join(''));
  expect(JSON.parse(String((await call).messages[0]?.prediction))).toEqual({ value: 3 });
  expect(await server.exit).toBe(0);
  await Promise.all([unused.closed, half.closed]);
  client.close();
  expect(workers.filter(({ pid }) => alive(pid))).toEqual([]);
});

it('shutdown_grace: health is false at once, and requests are taken until it is over', async () => {
  const server = await start({ config: { shutdown_grace: 3 } });
  const request = 'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n';
  const kept = await raw(server.inference, request);
  await once(kept.socket, 'data');
  process.kill(server.pid, 'SIGINT');
  await until(async () => ((await get(`${server.inference}/health/ready`)).status === 503 ? true : undefined), 'not ready');
  const ready = await get(`${server.inference}/health/ready`);
  expect(ready.json).toMatchObject({ ready: false, phase: 'draining', problems: ['the server is shutting down'] });
  for (const probe of ['/v1/models/m', '/v2/models/m/ready', '/v2/health/ready'])
    expect((await get(`${server.inference}${probe}`)).status).toBe(503);
  expect((await get(`${server.inference}/ping`)).status).toBe(500);
  expect((await get(`${server.inference}/health/live`)).status).toBe(200);
  const answer = await post(`${server.inference}/predictions/m`, { value: 1 });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('connection')).toBe('close');
  // A connection of before is answered once more, and told to end.
  kept.socket.write(request);
  const [late] = (await once(kept.socket, 'data')) as [Buffer];
  expect(late.toString('latin1').toLowerCase()).toContain('connection: close');
  await kept.closed;
  expect(await server.exit).toBe(0);
});

it('new requests are refused while accepted ones finish', async () => {
  const server = await start();
  const accepted = post(`${server.inference}/predictions/m`, { value: 1, ms: 1500 });
  await untilInFlight(server, 1);
  process.kill(server.pid, 'SIGTERM');
  const refused = await until(async () => {
    const answer = await post(`${server.inference}/predictions/m`, { value: 2 });
    return answer.status === 503 ? answer : undefined;
  }, 'it refuses');
  expect(refused.json).toMatchObject({ reason: 'draining' });
  expect(refused.headers.get('connection')).toBe('close');
  expect((await accepted).status).toBe(200);
  expect(await server.exit).toBe(0);
});

it('shutdown_timeout: what does not finish is answered, named, and makes the exit code 1', async () => {
  const server = await start({ config: { shutdown_timeout: 1 } });
  const { workers } = await server.describe('m');
  const requests = [1, 2].map((value) => post(`${server.inference}/predictions/m`, { value, ms: 60_000 }));
  await untilInFlight(server, 2);
  process.kill(server.pid, 'SIGTERM');
  for (const answer of await Promise.all(requests)) expect(answer.status).toBeGreaterThanOrEqual(500);
  expect(await server.exit).toBe(1);
  expect(server.logs()).toContain('2 request(s) of model "m"');
  expect(workers.filter(({ pid }) => alive(pid))).toEqual([]);
});

it('a second signal ends it at once and says what was cut', async () => {
  const server = await start();
  const { workers } = await server.describe('m');
  const cut = post(`${server.inference}/predictions/m`, { value: 1, ms: 60_000 }).catch(() => undefined);
  await untilInFlight(server, 1);
  process.kill(server.pid, 'SIGTERM');
  // Signals that come together are one.
  await until(async () => (server.logs().includes('shutting down') ? true : undefined), 'it shuts down');
  const again = setInterval(() => alive(server.pid) && process.kill(server.pid, 'SIGTERM'), 250);
  expect(await server.exit).toBe(1);
  clearInterval(again);
  expect(server.logs()).toContain('ended by a second signal; cut: 1 request(s) of model "m"');
  await cut;
  await until(async () => (workers.some(({ pid }) => alive(pid)) ? undefined : true), 'the workers are gone');
});

it('SIGTERM while a model loads: it ends soon, without children or unpacked files', async () => {
  const gate = await makeGate('hang');
  const server = await start({ at: 'listening', models: { m: { handlerSource: gate.handlerSource, config: one } } });
  const temp = join(server.store, '..', 'tmp');
  const { pid } = await until(async () => {
    const { status } = await get(`${server.management}/models/m`);
    return status === 200 ? (await server.describe('m')).workers.find(({ pid: started }) => started > 0) : undefined;
  }, 'a worker starts');
  process.kill(server.pid, 'SIGTERM');
  expect(await server.exit).toBe(0);
  expect(alive(pid)).toBe(false);
  expect((await readdir(temp)).filter((name) => name.startsWith('onnxserve-models-') || name.endsWith('.pid'))).toEqual([]);
});

it('the default version is switched to and fro under load without a failed request', async () => {
  const version = (number: string) => ({
    handlerSource: `export default { handle: (batch) => batch.map(() => '${number}') };`,
    modelName: 'v',
    version: number,
    config: one,
  });
  const server = await start({ models: { v1: version('1.0'), v2: version('2.0') } });
  const state = { ended: false };
  const seen = new Map<string, number>();
  const load = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!state.ended) {
        const { status, text } = await post(`${server.inference}/predictions/v`, {});
        const what = status === 200 ? text : `status ${status}`;
        seen.set(what, (seen.get(what) ?? 0) + 1);
      }
    }),
  );
  for (let round = 0; round < 20; round++) {
    const to = round % 2 === 0 ? '2.0' : '1.0';
    expect((await send('PUT', `${server.management}/models/v/${to}/set-default`)).status).toBe(200);
    const before = seen.get(to) ?? 0;
    await until(async () => ((seen.get(to) ?? 0) > before ? true : undefined), `${to} answers`);
  }
  state.ended = true;
  await load;
  expect([...seen.keys()].sort()).toEqual(['1.0', '2.0']);
});
