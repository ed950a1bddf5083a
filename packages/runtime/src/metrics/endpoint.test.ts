import { afterEach, beforeEach, expect, it } from 'vitest';
import { Endpoint, formatFor, type EndpointOptions } from './endpoint.js';
import { ProcessMetrics } from './process-metrics.js';
import { MetricRegistry } from './registry.js';

let process: ProcessMetrics;
beforeEach(() => {
  process = new ProcessMetrics();
});
afterEach(() => process.close());

async function body(more: Partial<EndpointOptions>, names?: readonly string[]): Promise<string | undefined> {
  const registry = new MetricRegistry();
  const endpoint = new Endpoint({
    enabled: true,
    mode: 'prometheus',
    registry,
    process,
    gauges: () => [],
    listed: undefined,
    ...more,
  });
  return (await endpoint.scrape(undefined, names))?.body;
}
const declared = (text = '') => [...text.matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1]);

it.each(['log', 'legacy'] as const)('says in mode %s where the rest is, and still has our families', async (mode) => {
  const text = await body({ mode });
  expect(text?.split('\n', 1)[0]).toMatch(/^# .*metrics_mode=prometheus/);
  expect(declared(text)).toContain('onnxserve_requests_total');
  expect(declared(text)).toContain('process_cpu_seconds_total');
  expect(declared(text)).not.toContain('Requests2XX');
  expect(declared(text).includes('ts_inference_requests_total')).toBe(mode === 'legacy');
});

it('says nothing of the mode to who asks for one family', async () => {
  expect(await body({ mode: 'log' }, ['Requests2XX'])).toBe('');
  expect(declared(await body({ mode: 'log' }, ['onnxserve_in_flight']))).toEqual(['onnxserve_in_flight']);
});

it('finds a histogram by the name of its samples', async () => {
  expect(declared(await body({}, ['onnxserve_batch_size_bucket']))).toEqual(['onnxserve_batch_size']);
});

it('is not there with enable_metrics_api=false', async () => {
  expect(await body({ enabled: false })).toBeUndefined();
});

it('hides the server families that a metrics_config file leaves out', async () => {
  const names = declared(await body({ listed: new Set(['Requests2XX']) }));
  expect(names).toContain('Requests2XX');
  expect(names).not.toContain('Requests4XX');
  expect(names).toContain('onnxserve_requests_total');
});

it.each([
  [undefined, 'text'],
  ['*/*', 'text'],
  ['application/openmetrics-text', 'text'],
  [
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
    'openmetrics',
  ],
  ['application/openmetrics-text; version=1.0.0; q=0.2, text/plain; q=0.9', 'text'],
  ['application/json', 'text'],
])('Accept %s gives %s', (accept, format) => expect(formatFor(accept)).toBe(format));
