import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { handlerMetric, requestEnded, workerChanged } from '../domain/events.js';
import { LogFiles } from './log-files.js';
import { MetricLog } from './metric-log.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'metric-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function logged(format: 'torchserve' | 'json', publish: () => void): Promise<{ server: string; model: string }> {
  const files = new LogFiles({
    maxBytes: 1e8,
    keep: 10,
    warn: () => undefined,
    logLocation: folder,
    metricsLocation: folder,
    toStdout: false,
  });
  const log = new MetricLog({ files, hostname: 'box', format });
  publish();
  log.close();
  await files.close();
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  return { server: read('ts_metrics.log'), model: read('model_metrics.log') };
}

function ended(requestId: string, requestedVersion?: string): void {
  const stages = { queue: 2e6, preprocess: 0, wait: 0, inference: 5e6, postprocess: 0, encode: 0 };
  const answered = { outcome: 'ok', reason: undefined, status: 200, batchSize: 1, workerId: '9000', responseBytes: 10 } as const;
  requestEnded.publish({ model: 'm', version: '1.0', requestedVersion, requestId, stages, totalNs: 8e6, ...answered });
}

it("writes TorchServe's lines, whose sums are those of a line for each request", async () => {
  const { server, model } = await logged('torchserve', () => {
    for (let at = 0; at < 3; at++) ended(`r${at}`);
    ended('r3', '1.0');
    workerChanged.publish({ model: 'm', version: '1.0', workerId: '9000', pid: 5, state: 'ready', loadSeconds: 1.2 });
    const metric = { name: 'Seen', type: 'counter', value: 2, unit: '', labels: { kind: 'a|b' }, requestIds: 'r0,r1' } as const;
    handlerMetric.publish({ model: 'm', version: '1.0', workerId: '9000', ...metric });
  });
  expect(server).toMatch(
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3} - ts_inference_requests_total\.Count:3\.0\|#model_name:m,model_version:default\|#hostname:box,timestamp:\d{10}$/m,
  );
  expect(server).toMatch(/ - ts_inference_requests_total\.Count:1\.0\|#model_name:m,model_version:1\.0\|/);
  expect(server).toMatch(/ - ts_queue_latency_microseconds\.Microseconds:6000\.0\|#model_name:m,model_version:default\|/);
  expect(server).toMatch(
    / - WorkerLoadTime\.Milliseconds:1200\.0\|#WorkerName:W-9000-m_1\.0,Level:Host\|#hostname:box,timestamp:/,
  );
  expect(model).toMatch(/ - PredictionTime\.ms:5\.0\|#ModelName:m,Level:Model\|#hostname:box,requestID:r3,timestamp:\d{10}$/m);
  expect(model).toMatch(
    / - Seen\.Count:2\.0\|#ModelName:m,Level:Model,kind:a_b\|#hostname:box,requestID:r0,r1,timestamp:\d{10}$/m,
  );
});

it('writes JSON lines with log_format=json', async () => {
  const { server } = await logged('json', () => ended('r'));
  const lines = server
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { name: string });
  expect(lines.find((line) => line.name === 'ts_inference_requests_total')).toMatchObject({ value: 1, hostname: 'box' });
});
