import { expect, it } from 'vitest';
import { readOptions } from './options.js';
import { median, summary, table, type Point } from './table.js';
import { noopModel } from './noop-model.js';
import { workload } from './workloads.js';

const measured = (requestsPerSecond: number, failed = 0) => ({ requestsPerSecond, p50: 1, p99: 2, failed, statuses: {} });
const point: Point = {
  workload: 'noop',
  connections: 8,
  server: [measured(100), measured(300, 2), measured(200)],
  echo: [measured(1000), measured(1000), measured(500)],
};

it('takes medians over rounds and compares within each round', () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(summary(point)).toMatchObject({ requestsPerSecond: 200, echo: 1000, ratio: 0.3, failed: 2 });
});

it('prints a row for each point, as wide as its head', () => {
  const [head = '', , row = ''] = table([point]).split('\n');
  expect(row.split('|').map((cell) => cell.trim())).toEqual(['', 'noop', '8', '200.0', '1', '2', '2', '1000', '0.30', '']);
  expect(row.length).toBe(head.length);
});

it('refuses options that make no sense', () => {
  expect(() => readOptions(['--seconds', '0'])).toThrow(/--seconds: wanted a whole number from 1, got "0"/);
  expect(() => readOptions(['--workloads', 'nope'])).toThrow(/there is no "nope"; there are noop, text, image/);
  expect(readOptions(['--help'])).toBeUndefined();
});

it('names the file that a workload lacks', () => {
  expect(workload('text', '/nonexistent')).toEqual({ missing: '/nonexistent/minilm_pooled.onnx' });
  expect(workload('noop', undefined)).toMatchObject({ contentType: 'application/json' });
});

it('makes a model of one Identity node', () => {
  const bytes = noopModel().toString('latin1');
  expect(bytes).toContain('Identity');
  expect(bytes.startsWith('\u0008\u0008')).toBe(true);
});
