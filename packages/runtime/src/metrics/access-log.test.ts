import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { grpcEnded, type GrpcEnded, httpEnded, type HttpEnded } from '../domain/events.js';
import { accessText, isProbe, logAccess } from './access-log.js';
import type { Level } from './line-format.js';
import { LogLevels } from '../domain/log-levels.js';
import { LogFiles } from './log-files.js';

const event: HttpEnded = {
  listener: 'inference',
  remote: '127.0.0.1:5050',
  method: 'POST',
  url: '/predictions/m',
  httpVersion: '1.1',
  status: 200,
  ms: 12.4,
  requestId: 'abc',
  stages: { queue: 1e6, preprocess: 2_500_000, wait: 0, inference: 8e6, postprocess: 1234, encode: 0 },
  reason: undefined,
  requestBytes: 1,
  responseBytes: 2,
};
const call: GrpcEnded = {
  listener: 'management',
  remote: '127.0.0.1:5050',
  method: 'a.Service/Method',
  code: 0,
  ms: 3.2,
  requestId: 'abc',
  stages: undefined,
  reason: undefined,
  requestBytes: 1,
  responseBytes: 2,
};
const probes = ['/ping', '/health/live', '/v2/health/ready', '/v2/health/live', '/metrics?name[]=x'];

let folder: string;
let printed: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'access-'));
  printed = '';
});
afterEach(() => rmSync(folder, { recursive: true }));

async function logged(
  level: Level,
  format: 'torchserve' | 'json',
  events: Array<HttpEnded | GrpcEnded>,
  logLocation = folder,
): Promise<void> {
  const files = new LogFiles({
    maxBytes: 1e8,
    keep: 10,
    warn: (sentence) => (printed += `${sentence}\n`),
    logLocation,
    metricsLocation: undefined,
    toStdout: true,
    stdout: (text) => (printed += text),
  });
  const end = logAccess({
    files,
    levels: new LogLevels({ server: 'info', access: level, model: 'info', accessProbes: false }),
    format,
  });
  for (const it of events) {
    if ('url' in it) httpEnded.publish(it);
    else grpcEnded.publish(it);
  }
  end();
  await files.close();
}
const lines = (name: string) => readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);

describe('access_log.log', () => {
  it("has TorchServe's fields first, then id, stages in milliseconds and the reason", async () => {
    await logged('info', 'torchserve', [event, { ...event, status: 503, stages: undefined, reason: 'queue-full' }]);
    const [ok, failed] = lines('access_log.log');
    expect(ok).toMatch(
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3} - 127\.0\.0\.1:5050 "POST \/predictions\/m HTTP\/1\.1" 200 12 id=abc queue=1 preprocess=2\.5 wait=0 inference=8 postprocess=0\.001 encode=0$/,
    );
    expect(failed).toMatch(/" 503 12 id=abc reason=queue-full$/);
    expect(lines('ts_log.log')[0]).toMatch(/ \[INFO \] inference ACCESS_LOG - 127/);
  });

  it('has a line for each gRPC call, but for probes that succeed', async () => {
    const probe = { ...call, method: 'grpc.health.v1.Health/Check' };
    await logged('info', 'torchserve', [probe, { ...call, code: 5, reason: 'not-found' }, { ...probe, code: 14 }]);
    const [failed, down, ...more] = lines('access_log.log');
    expect(failed).toMatch(/ - 127\.0\.0\.1:5050 "gRPC a\.Service\/Method HTTP\/2\.0" 5 3 id=abc reason=not-found$/);
    expect([down, more]).toEqual([expect.stringContaining('Health/Check HTTP/2.0" 14'), []]);
  });

  it('leaves out probes at level info, one line for each prediction, none at level warn', async () => {
    const asked = [...probes.map((url) => ({ ...event, url })), event];
    await logged('info', 'torchserve', asked);
    expect(lines('access_log.log')).toHaveLength(1);
    expect(printed.trim().split('\n')).toHaveLength(1);
    await logged('warn', 'torchserve', asked);
    expect(lines('access_log.log')).toHaveLength(1);
    await logged('debug', 'torchserve', asked);
    expect(lines('access_log.log')).toHaveLength(1 + asked.length);
  });

  it('shows a probe that fails', async () => {
    await logged('info', 'torchserve', [{ ...event, url: '/ping', status: 500 }]);
    expect(lines('access_log.log')).toHaveLength(1);
  });

  it('is JSON lines with log_format=json', async () => {
    await logged('info', 'json', [event]);
    expect(JSON.parse(lines('access_log.log')[0] ?? '')).toMatchObject({
      log: 'access',
      level: 'info',
      status: 200,
      requestId: 'abc',
      stages: { queue: 1, inference: 8 },
    });
  });

  it('cannot be forged by an address', () => {
    const text = accessText({ ...event, url: '/x" 200 1\n2024 - fake' });
    expect(text).not.toContain('\n');
    expect(text.split('"')).toHaveLength(3);
  });

  it('hides the signature of an address that a model was registered by', () => {
    const url = `/models?model_name=m&url=${encodeURIComponent('https://s3.example/m.mar?X-Amz-Credential=AKIA&X-Amz-Signature=beef12')}`;
    const text = accessText({ ...event, url });
    expect(text).toContain('m.mar');
    expect(text).not.toMatch(/beef12|AKIA/);
  });

  it('goes to standard output alone, with one warning, when the folder cannot be written', async () => {
    const blocked = join(folder, 'file');
    writeFileSync(blocked, '');
    await logged('info', 'torchserve', [event, event], join(blocked, 'logs'));
    expect(printed.match(/cannot be written/g)).toHaveLength(1);
    expect(printed.match(/ACCESS_LOG/g)).toHaveLength(2);
    expect(readdirSync(folder)).toEqual(['file']);
  });
});

it('knows probes from requests', () => {
  for (const url of probes) expect(isProbe(url), url).toBe(true);
  for (const url of ['/predictions/ping', '/healthy', '/models', '/metrics/x', '/v2/models/m/ready'])
    expect(isProbe(url), url).toBe(false);
});
