import { afterEach, beforeEach, expect, it } from 'vitest';
import { handlerMetric, type HandlerMetric } from '../domain/events.js';
import { HandlerMetricsRecorder } from './handler-metrics.js';
import { noMetricsConfig, parseMetricsConfig, type MetricsConfig } from './metrics-config.js';
import { MetricRegistry } from './registry.js';

let registry: MetricRegistry;
let recorder: HandlerMetricsRecorder;
let warnings: string[];

function open(config: MetricsConfig = noMetricsConfig, autoDetect = true, maxMetrics = 200): void {
  registry = new MetricRegistry();
  warnings = [];
  const warn = (sentence: string) => warnings.push(sentence);
  const knows = (model: string) => model !== 'gone';
  recorder = new HandlerMetricsRecorder({
    registry,
    hostname: 'box',
    config,
    autoDetect,
    maxMetrics,
    maxSeries: 1000,
    knows,
    warn,
  });
}
beforeEach(() => open());
afterEach(() => recorder.close());

function emit(model: string, name: string, more: Partial<HandlerMetric> = {}): void {
  const event = { version: '1.0', workerId: '9000', requestIds: 'r', type: 'counter' as const, value: 1, unit: '', labels: {} };
  handlerMetric.publish({ model, name, ...event, ...more });
}
/** Samples of a family as the endpoint would show them; undefined when there is no such family. */
function shown(name: string): Record<string, number> | undefined {
  const family = [...registry.all].find((it) => it.name === name);
  return family && Object.fromEntries([...family.samples].map((it) => [`${it.suffix}{${it.labels}}`, it.value]));
}
const refused = () => shown('onnxserve_handler_metrics_refused_total');

it('adds up over workers, with the labels of the model', () => {
  for (const workerId of ['9000', '9001', '9002', '9003']) emit('m', 'Seen', { workerId, value: 2 });
  emit('m', 'Size', { type: 'gauge', value: 3, unit: 'MB' });
  emit('m', 'Size', { type: 'gauge', value: 3.5, unit: 'MB' });
  emit('m', 'Score', { type: 'histogram', value: 0.2, labels: { kind: 'a' } });
  expect(shown('Seen')).toEqual({ '{ModelName="m",Level="Model",Hostname="box"}': 8 });
  expect(shown('Size')).toEqual({ '{ModelName="m",Level="Model",Hostname="box"}': 3.5 });
  expect(shown('Score')).toMatchObject({ '_count{ModelName="m",Level="Model",Hostname="box",kind="a"}': 1 });
});

it('refuses what conflicts with another definition, says so once, and keeps the rest', () => {
  emit('a', 'Shared', { labels: { x: '1' } });
  for (let at = 0; at < 3; at++) emit('b', 'Shared', { labels: { y: '1' } });
  emit('b', 'Shared', { type: 'gauge', labels: { x: '1' } });
  for (const name of ['onnxserve_workers', 'Requests2XX', 'process_start', 'ts_inference_requests']) emit('b', name);
  emit('b', 'Fine');
  expect(shown('Shared')).toEqual({ '{ModelName="a",Level="Model",Hostname="box",x="1"}': 1 });
  expect(shown('Fine')).toEqual({ '{ModelName="b",Level="Model",Hostname="box"}': 1 });
  expect(refused()).toEqual({ '{model="b",version="1.0",reason="conflict"}': 8 });
  expect(warnings).toContain('Metric "Shared" of model "b" is refused: its labels are y here and x in model "a".');
  expect(warnings).toHaveLength(5);
});

it('refuses values that no counter can have, and names that are no labels', () => {
  emit('m', 'Bad', { value: -1 });
  emit('m', 'Bad', { value: Number.NaN });
  emit('m', 'Bad', { labels: { 'a-b': '1' } });
  expect(shown('Bad')).toBeUndefined();
  expect(refused()).toEqual({ '{model="m",version="1.0",reason="invalid"}': 3 });
});

it('bounds the series of a model', () => {
  for (let at = 0; at < 1100; at++) emit('m', 'Wide', { labels: { at: String(at) } });
  emit('m', 'Another');
  emit('n', 'Another');
  expect(Object.keys(shown('Wide') ?? {})).toHaveLength(1000);
  expect(shown('Another')).toEqual({ '{ModelName="n",Level="Model",Hostname="box"}': 1 });
  expect(refused()).toEqual({ '{model="m",version="1.0",reason="series-limit"}': 101 });
  expect(warnings).toEqual([expect.stringMatching(/1000 series.*max_handler_metric_series/)]);
});

it('bounds the metrics of a model, with one warning for all that are too many', () => {
  recorder.close();
  open(noMetricsConfig, true, 2);
  for (const name of ['A', 'B', 'C', 'D', 'A']) emit('m', name);
  emit('n', 'C');
  expect(shown('A')).toEqual({ '{ModelName="m",Level="Model",Hostname="box"}': 2 });
  expect(shown('C')).toEqual({ '{ModelName="n",Level="Model",Hostname="box"}': 1 });
  expect(shown('D')).toBeUndefined();
  expect(refused()).toEqual({ '{model="m",version="1.0",reason="metric-limit"}': 2 });
  expect(warnings).toEqual([expect.stringMatching(/2 metrics.*max_handler_metrics/)]);
  recorder.forget('m');
  emit('m', 'D');
  expect(shown('D')).toBeDefined();
});

it('exports only what the file lists when detection is off, with the labels that it lists', () => {
  recorder.close();
  const yaml = 'model_metrics:\n  counter:\n    - {name: Seen, unit: Count, dimensions: [ModelName, lang]}\n';
  open(parseMetricsConfig(yaml, 'metrics.yaml'), false);
  emit('m', 'Seen', { labels: { lang: 'en' } });
  emit('m', 'Seen', { labels: { word: 'en' } });
  emit('m', 'Other');
  expect(shown('Seen')).toEqual({ '{ModelName="m",Level="Model",Hostname="box",lang="en"}': 1 });
  expect(shown('Other')).toBeUndefined();
  expect(warnings).toEqual([
    'Metric "Seen" of model "m" is refused: its labels are word here and lang in model "m".',
    expect.stringContaining('model_metrics_auto_detect=false'),
  ]);
  recorder.forget('m');
  emit('n', 'Seen');
  expect(shown('Seen')).toBeUndefined();
  expect(warnings.at(-1)).toContain('its labels are none here and lang in the metrics_config file');
});

it('forgets a model, and a definition with its last model', () => {
  emit('a', 'Shared');
  emit('b', 'Shared');
  emit('a', 'Shared', { type: 'gauge' });
  recorder.forget('a');
  expect(shown('Shared')).toEqual({ '{ModelName="b",Level="Model",Hostname="box"}': 1 });
  expect(refused()).toEqual({});
  recorder.forget('b');
  expect(shown('Shared')).toBeUndefined();
  emit('a', 'Shared', { type: 'gauge', value: 7 });
  expect(shown('Shared')).toEqual({ '{ModelName="a",Level="Model",Hostname="box"}': 7 });
  emit('gone', 'Late');
  expect(shown('Late')).toBeUndefined();
});

it('takes type and bounds from the metrics_config file', () => {
  recorder.close();
  const yaml = 'model_metrics:\n  histogram:\n    - {name: Score, unit: percent, dimensions: [], buckets: [10, 50]}\n';
  open(parseMetricsConfig(yaml, 'metrics.yaml'));
  emit('m', 'Score', { type: 'histogram', value: 20 });
  emit('m', 'Score', { type: 'gauge', value: 20 });
  expect(shown('Score')).toMatchObject({
    '_bucket{ModelName="m",Level="Model",Hostname="box",le="10.0"}': 0,
    '_bucket{ModelName="m",Level="Model",Hostname="box",le="50.0"}': 1,
  });
  expect(refused()).toEqual({ '{model="m",version="1.0",reason="conflict"}': 1 });
});
