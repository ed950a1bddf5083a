import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../domain/errors.js';
import {
  handlerMetric,
  httpEnded,
  modelChanged,
  requestEnded,
  workerChanged,
  type HandlerMetric,
  type RequestEnded,
} from '../domain/events.js';
import { LogLevels } from '../domain/log-levels.js';
import type { StageTimes } from '../domain/request.js';
import { createMetrics, type Metrics, type MetricsSettings } from './create-metrics.js';
import type { ModelGauges } from './gauge-source.js';
import { families, type FamilySpec } from './names.js';

const ms = 1e6;
let folder: string;
let metrics: Metrics;
let gauges: ModelGauges[];
let console: string;

function open(settings: Partial<MetricsSettings> = {}): void {
  metrics = createMetrics({
    hostname: 'box',
    gauges: () => gauges,
    levels: new LogLevels({ server: 'info', access: 'info', model: 'info', accessProbes: false }),
    stdout: (text) => (console += text),
    config: {
      enableMetricsApi: true,
      metricsMode: 'prometheus',
      metricsConfig: undefined,
      modelMetricsAutoDetect: true,
      maxHandlerMetrics: 200,
      maxHandlerMetricSeries: 1000,
      disableSystemMetrics: true,
      systemMetricsCmd: undefined,
      modelStore: undefined,
      tempDirectory: folder,
      metricTimeInterval: 60,
      numberOfGpu: 0,
      logLocation: folder,
      metricsLocation: folder,
      logFormat: 'torchserve',
      logToStdout: true,
      logMaxSize: 1e8,
      logMaxFiles: 10,
      ...settings,
    },
  });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'metrics-'));
  gauges = [];
  console = '';
});
afterEach(async () => {
  await metrics.close();
  rmSync(folder, { recursive: true });
});

const register = (model: string, version = '1.0') => modelChanged.publish({ model, version, change: 'registered' });
const unregister = (model: string, version = '1.0') => modelChanged.publish({ model, version, change: 'unregistered' });
const times = (part: Partial<StageTimes> = {}): StageTimes => ({
  queue: 0,
  preprocess: 0,
  wait: 0,
  inference: 0,
  postprocess: 0,
  encode: 0,
  ...part,
});
function ended(model: string, more: Partial<RequestEnded> = {}): void {
  requestEnded.publish({
    model,
    version: '1.0',
    requestedVersion: undefined,
    requestId: 'r',
    outcome: 'ok',
    reason: undefined,
    status: 200,
    stages: times({ queue: 2 * ms, inference: 5 * ms }),
    totalNs: 8 * ms,
    batchSize: 1,
    workerId: '9000',
    responseBytes: 10,
    ...more,
  });
}
function emit(model: string, name: string, more: Partial<HandlerMetric> = {}): void {
  const event = { version: '1.0', workerId: '9000', requestIds: 'r', type: 'counter' as const, value: 1, unit: '', labels: {} };
  handlerMetric.publish({ model, name, ...event, ...more });
}
async function scrape(names?: readonly string[], accept?: string): Promise<string> {
  return (await metrics.endpoint.scrape(accept, names))?.body ?? 'off';
}

interface Parsed {
  readonly types: Map<string, string>;
  readonly values: Map<string, number>;
}
/** Refuses what a strict reader of the text format refuses. */
function parse(text: string): Parsed {
  const types = new Map<string, string>();
  const values = new Map<string, number>();
  expect(text === '' || text.endsWith('\n')).toBe(true);
  let family = '';
  const lines = text.split('\n').slice(0, -1);
  for (const line of lines) {
    const [, keyword, named = '', rest = ''] = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.*)$/.exec(line) ?? [];
    if (keyword === 'HELP') {
      family = named;
      continue;
    }
    if (keyword === 'TYPE') {
      expect(named).toBe(family);
      expect(types.has(family), `${family} twice`).toBe(false);
      types.set(family, rest);
      continue;
    }
    if (line.startsWith('#')) continue;
    const sample =
      /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[\d.]+(?:e[+-]?\d+)?|[+-]Inf|NaN)$/.exec(
        line,
      );
    expect(sample, `not a sample: ${line}`).not.toBeNull();
    const [, name = '', labels = '', value = ''] = sample ?? [];
    expect(labels.endsWith(','), line).toBe(false);
    const own =
      types.get(family) === 'histogram' || types.get(family) === 'summary' ? name.replace(/_(bucket|sum|count)$/, '') : name;
    expect(own.replace(/_total$/, ''), 'families must not be interleaved').toBe(family.replace(/_total$/, ''));
    const key = labels === '' ? name : `${name}{${labels}}`;
    expect(values.has(key), `${key} twice`).toBe(false);
    values.set(key, value === '+Inf' ? Infinity : Number(value));
  }
  return { types, values };
}
const values = async (...names: string[]) => parse(await scrape(names.length === 0 ? undefined : names)).values;

describe('counting', () => {
  it('counts each request once, whatever becomes of workers and however often it is scraped', async () => {
    open();
    register('m');
    let before = 0;
    for (let round = 1; round <= 20; round++) {
      for (let request = 0; request < 50; request++) ended('m', { workerId: `900${request % 4}` });
      if (round === 10) {
        for (const pid of [71, 72])
          workerChanged.publish({ model: 'm', version: '1.0', workerId: '9001', pid, state: 'starting' });
      }
      const now = (await values()).get('onnxserve_requests_total{model="m",version="1.0",outcome="ok",reason=""}') ?? 0;
      expect(now).toBe(before + 50);
      before = now;
    }
    const all = await values();
    expect(all.get('ts_inference_requests_total{model_name="m",model_version="default",hostname="box"}')).toBe(1000);
    expect(all.get('onnxserve_request_duration_seconds_count{model="m",version="1.0"}')).toBe(1000);
    expect(all.get('onnxserve_worker_restarts_total{model="m",version="1.0"}')).toBe(1);
  });

  it('counts failed, cancelled and timed-out requests by outcome', async () => {
    open();
    register('m');
    const failures: Array<readonly [number, ErrorCode, string]> = [
      [3, 'BAD_REQUEST', 'bad-input'],
      [2, 'HANDLER_FAILED', 'handler-error'],
      [2, 'RESPONSE_TIMEOUT', 'response-timeout'],
      [2, 'CANCELLED', 'cancelled'],
      [2, 'QUEUE_FULL', 'queue-full'],
    ];
    for (let at = 0; at < 5; at++) ended('m');
    for (const [count, outcome, reason] of failures) {
      for (let at = 0; at < count; at++) ended('m', { outcome, reason, stages: undefined });
    }
    const all = await values('onnxserve_requests_total');
    for (const [count, outcome, reason] of failures)
      expect(all.get(`onnxserve_requests_total{model="m",version="1.0",outcome="${outcome}",reason="${reason}"}`)).toBe(count);
    expect([...all.values()].reduce((sum, it) => sum + it, 0)).toBe(16);
  });

  it('has every series at zero from registration on and none after unregistration', async () => {
    open();
    register('m', '2.0');
    const before = await values();
    for (const name of [
      'onnxserve_requests_total{model="m",version="2.0",outcome="ok",reason=""}',
      'onnxserve_stage_duration_seconds_count{model="m",version="2.0",stage="queue"}',
      'onnxserve_batch_release_total{model="m",version="2.0",reason="full"}',
      'ts_inference_requests_total{model_name="m",model_version="default",hostname="box"}',
      'ts_inference_requests_total{model_name="m",model_version="2.0",hostname="box"}',
    ])
      expect(before.get(name), name).toBe(0);
    ended('m', { version: '2.0', requestedVersion: '2', outcome: 'INTERNAL', reason: 'made-up' });
    emit('m', 'Mine', { version: '2.0' });
    emit('m', 'Mine', { version: '2.0', type: 'gauge' });
    workerChanged.publish({ model: 'm', version: '2.0', workerId: '9000', pid: 7, state: 'ready', loadSeconds: 1.5 });
    expect((await values('WorkerLoadTime')).get('WorkerLoadTime{WorkerName="W-9000-m_2.0",Level="Host",Hostname="box"}')).toBe(
      1500,
    );
    unregister('m', '2.0');
    ended('m', { version: '2.0' });
    emit('m', 'Mine', { version: '2.0' });
    expect([...(await values()).keys()].filter((key) => /="m"|_2\.0"/.test(key))).toEqual([]);
  });

  it('never makes a label of what clients invent', async () => {
    open();
    register('m');
    ended('m', {
      requestedVersion: '9.9',
      version: '9.9',
      outcome: 'MODEL_VERSION_NOT_FOUND',
      reason: 'not-found',
      stages: undefined,
    });
    ended('nope', { outcome: 'MODEL_NOT_FOUND', reason: 'x'.repeat(50), stages: undefined });
    const text = await scrape();
    expect(text).not.toMatch(/9\.9|nope|xxxx/);
    const all = parse(text).values;
    expect(all.get('onnxserve_requests_total{model="",version="",outcome="MODEL_NOT_FOUND",reason="other"}')).toBe(1);
    expect(all.get('onnxserve_requests_total{model="",version="",outcome="MODEL_VERSION_NOT_FOUND",reason="not-found"}')).toBe(1);
  });
});

describe('latency', () => {
  it('has a histogram for each stage from which quantiles can be read', async () => {
    open();
    register('m');
    for (let at = 0; at < 100; at++) {
      const slow = at >= 90;
      const stages = times({ queue: ms, preprocess: 2 * ms, inference: (slow ? 500 : 50) * ms - 4 * ms, postprocess: ms });
      ended('m', { stages, totalNs: (slow ? 500 : 50) * ms });
    }
    const all = await values();
    const at = (stage: string, le: string) =>
      all.get(`onnxserve_stage_duration_seconds_bucket{model="m",version="1.0",stage="${stage}",le="${le}"}`);
    expect(at('inference', '0.05')).toBe(90);
    expect(at('inference', '0.25')).toBe(90);
    expect(at('inference', '0.5')).toBe(100);
    expect(at('queue', '0.001')).toBe(100);
    expect(at('queue', '0.0005')).toBe(0);
    expect(at('wait', '+Inf')).toBe(100);
    const sums = ['queue', 'preprocess', 'wait', 'inference', 'postprocess', 'encode'].map(
      (stage) => all.get(`onnxserve_stage_duration_seconds_sum{model="m",version="1.0",stage="${stage}"}`) ?? 0,
    );
    const total = all.get('onnxserve_request_duration_seconds_sum{model="m",version="1.0"}') ?? 0;
    expect(sums.reduce((sum, it) => sum + it, 0)).toBeCloseTo(total, 6);
    expect(all.get('onnxserve_request_duration_seconds_bucket{model="m",version="1.0",le="+Inf"}')).toBe(100);
    expect(all.get('ts_inference_latency_microseconds{model_name="m",model_version="default",hostname="box"}')).toBeCloseTo(
      9_500_000,
      3,
    );
  });

  it('takes the bounds of histograms from the metrics_config file', async () => {
    const file = join(folder, 'metrics.yaml');
    writeFileSync(
      file,
      'onnxserve_metrics:\n  histogram:\n    - name: onnxserve_request_duration_seconds\n      buckets: [0.2, 2]\n',
    );
    open({ metricsConfig: file });
    register('m');
    ended('m');
    const bounds = [...(await values('onnxserve_request_duration_seconds')).keys()].flatMap(
      (key) => /le="([^"]+)"/.exec(key)?.[1] ?? [],
    );
    expect(bounds).toEqual(['0.2', '2.0', '+Inf']);
  });
});

describe('the endpoint', () => {
  it('asks for gauges at each scrape', async () => {
    open();
    const one = { model: 'm', version: '1.0', inFlight: 1, workers: { ready: 1, starting: 0 } };
    for (let depth = 9; depth >= 0; depth--) {
      gauges = [{ ...one, queueDepth: depth, oldestAgeSeconds: depth / 2 }];
      const all = await values();
      expect(all.get('onnxserve_queue_depth{model="m",version="1.0"}')).toBe(depth);
      expect(all.get('onnxserve_queue_oldest_age_seconds{model="m",version="1.0"}')).toBe(depth / 2);
      expect(all.get('onnxserve_in_flight{model="m",version="1.0"}')).toBe(1);
      expect(all.get('onnxserve_workers{model="m",version="1.0",state="ready"}')).toBe(1);
    }
    gauges = [];
    expect((await values()).has('onnxserve_queue_depth{model="m",version="1.0"}')).toBe(false);
  });

  it('declares every family of the table with its type, once', async () => {
    open();
    const { types } = parse(await scrape());
    for (const spec of Object.values<FamilySpec>(families)) expect(types.get(spec.name), spec.name).toBe(spec.type);
    expect(types.get('process_cpu_seconds_total')).toBe('counter');
  });

  it('filters by family name and answers nothing for unknown ones', async () => {
    open();
    httpEnded.publish({
      listener: 'inference',
      remote: '1.2.3.4:5',
      method: 'GET',
      url: '/x',
      httpVersion: '1.1',
      status: 302,
      ms: 1,
      requestId: 'r',
      stages: undefined,
      reason: undefined,
      requestBytes: 0,
      responseBytes: 0,
    });
    const { types, values: found } = parse(await scrape(['Requests5XX', 'QueueTime']));
    expect([...types.keys()]).toEqual(['Requests5XX', 'QueueTime']);
    expect(found.get('Requests5XX{Level="Host",Hostname="box"}')).toBe(1);
    expect(await scrape(['nope'])).toBe('');
  });

  it('escapes whatever names hold', async () => {
    open();
    const name = 'we"ird\na\\me';
    register(name);
    ended(name);
    emit(name, 'quo"te d', { labels: { label: 'a "b"\nc\\d ünïcode' } });
    const all = parse(await scrape()).values;
    expect(all.get('onnxserve_requests_total{model="we\\"ird\\na\\\\me",version="1.0",outcome="ok",reason=""}')).toBe(1);
    expect(
      all.get('quo_te_d{ModelName="we\\"ird\\na\\\\me",Level="Model",Hostname="box",label="a \\"b\\"\\nc\\\\d ünïcode"}'),
    ).toBe(1);
  });

  it('speaks OpenMetrics to who names its version, under the same sample names', async () => {
    open();
    register('m');
    ended('m');
    const accept = 'application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5';
    const openMetrics = (await metrics.endpoint.scrape(accept, undefined)) ?? { contentType: '', body: '' };
    expect(openMetrics.contentType).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
    expect(openMetrics.body.endsWith('\n# EOF\n')).toBe(true);
    const { types, values: found } = parse(openMetrics.body.replace(/# EOF\n$/, ''));
    expect(types.get('ts_inference_requests')).toBe('counter');
    expect(types.get('Requests2XX')).toBe('unknown');
    expect(found.get('ts_inference_requests_total{model_name="m",model_version="default",hostname="box"}')).toBe(1);
    expect(types.has('ts_inference_requests_total')).toBe(false);
    const text = parse(await scrape()).values;
    const stable = (keys: Iterable<string>) => [...keys].filter((key) => !/^(process_|nodejs_)/.test(key)).sort();
    expect(stable(found.keys())).toEqual(stable(text.keys()));
    expect((await metrics.endpoint.scrape('application/openmetrics-text', undefined))?.contentType).toMatch(
      /^text\/plain; version=0\.0\.4/,
    );
  });
});
