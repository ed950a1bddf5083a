import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { anyPort, jsonOf, open } from '../../test-support/listeners.js';

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('addresses', () => {
  it('that are equal share one listener, in which inference comes first', async () => {
    const address = anyPort('127.0.0.1', await freePort());
    const { at, inference, management } = await open({
      inferenceAddress: address,
      managementAddress: address,
      metricsAddress: address,
    });
    expect(new Set(Object.values(at)).size).toBe(1);
    await fetch(`${at.inference}/models/kit/invoke`, { method: 'POST', body: 'x' });
    expect(inference.requests).toHaveLength(1);
    expect((await fetch(`${at.inference}/models/kit`)).status).toBe(200);
    expect(management.calls).toEqual([['describe', 'kit', undefined, false]]);
    expect((await fetch(`${at.inference}/metrics/sub`)).status).toBe(200);
    const { paths } = await jsonOf(fetch(at.inference, { method: 'OPTIONS' }));
    expect(Object.keys(paths as object)).toEqual(expect.arrayContaining(['/ping', '/models', '/metrics']));
  });

  it('that are taken are named with their setting, and nothing stays open', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const first = anyPort('127.0.0.1', await freePort());
    await expect(open({ inferenceAddress: first, managementAddress: anyPort('127.0.0.1', port) })).rejects.toThrow(
      `management_address=http://127.0.0.1:${port}: port ${port} is in use already`,
    );
    await expect(fetch(`http://127.0.0.1:${first.port}/ping`)).rejects.toThrow('fetch failed');
  });

  it('may be a socket in the file system', async () => {
    const path = join(tmpdir(), `onnxserve-listener-${process.pid}.sock`);
    const { at } = await open({ managementAddress: { ...anyPort(), path, text: `unix:${path}` } });
    expect(at.management).toBe(`unix:${path}`);
    const request = httpRequest({ socketPath: path, path: '/models' }).end();
    const [response] = await once(request, 'response');
    expect(response.statusCode).toBe(200);
    response.resume();
  });
});

describe('the wrong listener', () => {
  it.each([
    ['management', '/predictions/kit', 'inference'],
    ['metrics', '/ping', 'inference'],
    ['inference', '/models', 'management'],
    ['inference', '/metrics', 'metrics'],
  ] as const)('%s%s points to %s', async (listener, path, right) => {
    const { at } = await open();
    const answer = await fetch(at[listener] + path);
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ type: 'ResourceNotFoundException', message: expect.stringContaining(at[right]) });
  });

  it('says when the metrics API is off', async () => {
    const { at } = await open({ enableMetricsApi: false });
    expect(at.metrics).toBe('');
    expect((await jsonOf(fetch(`${at.inference}/metrics`))).message).toContain('enable_metrics_api=false');
  });
});

describe('metrics', () => {
  it('pass on the families wanted and the type', async () => {
    const { at } = await open();
    const answer = await fetch(`${at.metrics}/metrics?name[]=a&name%5B%5D=b`);
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await answer.text()).toBe('names a,b\n');
    expect(await (await fetch(`${at.metrics}/metrics`)).text()).toBe('names all\n');
    expect((await fetch(`${at.metrics}/metrics`, { method: 'HEAD' })).status).toBe(200);
  });
});

describe('cross-origin requests', () => {
  const cors = { corsAllowedOrigin: 'https://a.example', corsAllowedMethods: 'GET, POST', corsAllowedHeaders: 'X-Custom' };
  const expected = {
    'access-control-allow-origin': 'https://a.example',
    'access-control-allow-methods': 'GET, POST',
    'access-control-allow-headers': 'X-Custom',
  };

  it('get the headers with every answer, errors too', async () => {
    const { at } = await open(cors);
    for (const url of [`${at.inference}/ping`, `${at.inference}/nope`, `${at.management}/models`, `${at.metrics}/metrics`]) {
      expect(Object.fromEntries((await fetch(url)).headers)).toMatchObject(expected);
    }
  });

  it('may ask first on every listener', async () => {
    const { at } = await open(cors);
    const preflight = { method: 'OPTIONS', headers: { origin: 'https://a.example', 'access-control-request-method': 'POST' } };
    for (const [url, status] of [
      [`${at.inference}/predictions/kit`, 200],
      [`${at.inference}/predictions/nope`, 204],
      [`${at.inference}/v2/models/kit/infer`, 200],
      [`${at.management}/models/kit`, 200],
      [`${at.management}/models`, 204],
      [`${at.metrics}/anything`, 204],
    ] as const) {
      const answer = await fetch(url, preflight);
      expect([url, answer.status]).toEqual([url, status]);
      expect(Object.fromEntries(answer.headers)).toMatchObject(expected);
    }
  });

  it('get nothing when nothing is configured', async () => {
    const { at } = await open();
    const answer = await fetch(`${at.inference}/ping`, { headers: { origin: 'https://a.example' } });
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});
