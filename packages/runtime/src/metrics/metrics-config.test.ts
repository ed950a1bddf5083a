import { expect, it } from 'vitest';
import { families, type FamilySpec } from './names.js';
import { parseMetricsConfig, readMetricsConfig } from './metrics-config.js';

it('reads the lists of a metrics file with its anchors', () => {
  const text = `
dimensions:
  - &model_name "ModelName"
  - &level "Level"
  - &hostname "Hostname"
x-common: &common {unit: percent, dimensions: [*model_name]}
ts_metrics:
  counter:
    - name: Requests2XX
      unit: Count
      dimensions: [*level, *hostname]
  gauge:
    - {name: FanSpeed, unit: rpm, dimensions: [*level, Fan]}
model_metrics:
  gauge:
    - name: HandlerTime
      unit: ms
      dimensions: [*model_name, *level]
  histogram:
    - {<<: *common, name: Score, buckets: [1, 10, 50]}
`;
  const config = parseMetricsConfig(text, 'metrics.yaml');
  expect([...(config.server?.keys() ?? [])]).toEqual(['Requests2XX', 'FanSpeed']);
  expect(config.server?.get('FanSpeed')).toMatchObject({ type: 'gauge', unit: 'rpm', dimensions: ['Level', 'Fan'] });
  expect(config.model.get('HandlerTime')).toMatchObject({ type: 'gauge', unit: 'ms', dimensions: ['ModelName', 'Level'] });
  expect(config.model.get('Score')).toMatchObject({ type: 'histogram', unit: 'percent', buckets: [1, 10, 50] });
});

it('accepts a file that lists every family of TorchServe as it is', () => {
  const all = Object.values<FamilySpec>(families).filter(({ group }) => group === 'torchserve');
  const list = (type: string, model: boolean) =>
    all
      .filter((spec) => spec.type === type && spec.labels.includes('ModelName') === model)
      .map(({ name, unit, labels }) => ({ name, unit, dimensions: labels.filter((label) => !model || label !== 'Hostname') }));
  const file = {
    ts_metrics: { counter: list('counter', false), gauge: list('gauge', false) },
    model_metrics: { gauge: list('gauge', true) },
  };
  const config = parseMetricsConfig(JSON.stringify(file), 'metrics.yaml');
  expect((config.server?.size ?? 0) + config.model.size).toBe(all.length);
});

it.each([
  ['[1', /^metrics_config metrics\.yaml:1: /],
  ['a: &x [*x]\nb: *y\n', /^metrics_config metrics\.yaml:2: there is no anchor &y/],
  ['- a', /wanted a mapping/],
  ['ts_metric: {}', /metrics\.yaml:1: ts_metric: there is no key "ts_metric", did you mean ts_metrics\?/],
  ['ts_metrics: {counter: 5}', /metrics\.yaml:1: ts_metrics\.counter: must be a list/],
  ['ts_metrics: [a]', /metrics\.yaml:1: ts_metrics: must hold lists/],
  ['dimensions: {a: 1}', /metrics\.yaml:1: dimensions: must be a list of names/],
  [
    'model_metrics:\n  summary:\n    - {name: a}',
    /metrics\.yaml:2: model_metrics\.summary: there is no type of metric "summary"/,
  ],
  ['model_metrics:\n  gauge:\n    - unit: ms', /metrics\.yaml:3: model_metrics\.gauge\[0\]\.name: must be text/],
  [
    'model_metrics:\n  gauge:\n    - {name: a, units: ms}',
    /metrics\.yaml:3: .*\.units: there is no key "units", did you mean unit\?/,
  ],
  [
    'model_metrics:\n  gauge:\n    - name: a\n      dimensions: [b, 5]',
    /metrics\.yaml:4: .*\[0\]\.dimensions: must be a list of names/,
  ],
  ['model_metrics:\n  gauge:\n    - name: a\n      dimensions: [b, b]', /metrics\.yaml:4: .*names "b" twice/],
  ['model_metrics:\n  gauge:\n    - {name: a, dimensions: [b-c]}', /"b-c" is no label name/],
  ['model_metrics: {histogram: [{name: a, buckets: [2, 1]}]}', /\[0\]\.buckets: must be a list of growing numbers/],
  ['model_metrics: {gauge: [{name: a, buckets: [1]}]}', /\[0\]\.buckets: only a histogram has buckets/],
  [
    'model_metrics:\n  gauge:\n    - name: a.b\n  counter:\n    - name: a_b\n',
    /metrics\.yaml:3: model_metrics\.gauge\[0\]\.name: "a\.b" is declared twice, first as model_metrics\.counter\[0\] in line 5/,
  ],
  [
    'ts_metrics:\n  gauge:\n    - name: Requests2XX',
    /metrics\.yaml:3: .*"Requests2XX" is a counter of this server and cannot be a gauge/,
  ],
  [
    'ts_metrics:\n  counter:\n    - name: Requests2XX\n      dimensions: [Level, Path]',
    /metrics\.yaml:4: .*the dimensions of "Requests2XX" are Level, Hostname and cannot be Level, Path/,
  ],
  ['model_metrics: {gauge: [{name: QueueTime}]}', /belongs under ts_metrics/],
  ['model_metrics: {gauge: [{name: onnxserve_workers}]}', /"onnxserve_workers" is always there/],
  ['onnxserve_metrics: {histogram: [{name: onnxserve_batch_sise, buckets: [1]}]}', /did you mean onnxserve_batch_size\?/],
  ['onnxserve_metrics: {histogram: [{name: onnxserve_batch_size}]}', /needs buckets/],
])('refuses %j', (text, why) => expect(() => parseMetricsConfig(text, 'metrics.yaml')).toThrow(why));

it('tells all mistakes at once', () => {
  const text = 'ts_metrics: {counter: 5}\nmodel_metrics: {gauge: [{name: 7}]}\n';
  expect(() => parseMetricsConfig(text, 'm.yaml')).toThrow(/m\.yaml:1: .*\nmetrics_config m\.yaml:2: /);
});

it('names a file that is not there', () =>
  expect(() => readMetricsConfig('/nonexistent/m.yaml')).toThrow(/\/nonexistent\/m\.yaml cannot be read/));
