import { expect, it } from 'vitest';
import { parseMetricsConfig, readMetricsConfig } from './metrics-config.js';

it('reads the lists of a metrics file with its anchors', () => {
  const text = `
dimensions:
  - &model_name "ModelName"
  - &level "Level"
ts_metrics:
  counter:
    - name: Requests2XX
      unit: Count
      dimensions: [*level]
model_metrics:
  gauge:
    - name: HandlerTime
      unit: ms
      dimensions: [*model_name, *level]
  histogram:
    - {name: Score, unit: percent, dimensions: [*model_name], buckets: [1, 10, 50]}
`;
  const config = parseMetricsConfig(text, 'metrics.yaml');
  expect(config.server).toEqual(new Set(['Requests2XX']));
  expect(config.model.get('HandlerTime')).toMatchObject({ type: 'gauge', unit: 'ms', dimensions: ['ModelName', 'Level'] });
  expect(config.model.get('Score')).toMatchObject({ type: 'histogram', buckets: [1, 10, 50] });
});

it.each([
  ['[1', /metrics\.yaml: .*line 1/s],
  ['- a', /wanted a mapping/],
  ['ts_metrics: {counter: 5}', /ts_metrics\.counter must be a list/],
  ['model_metrics: {gauge: [{unit: ms}]}', /model_metrics\.gauge\[0\]\.name must be text/],
  ['model_metrics: {histogram: [{name: a, buckets: [2, 1]}]}', /buckets must be a list of growing numbers/],
])('refuses %s', (text, why) => expect(() => parseMetricsConfig(text, 'metrics.yaml')).toThrow(why));

it('names a file that is not there', () =>
  expect(() => readMetricsConfig('/nonexistent/m.yaml')).toThrow(/\/nonexistent\/m\.yaml cannot be read/));
