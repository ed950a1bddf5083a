import { expect, it } from 'vitest';
import { batchDispatched, batchRan, modelChanged, workerChanged } from '../domain/events.js';
import { render } from './exposition.js';
import { Recorder } from './recorder.js';
import { MetricRegistry } from './registry.js';

it('counts items, rows and what released them, and drops the load time of a worker that is gone', () => {
  const registry = new MetricRegistry();
  const recorder = new Recorder(registry, 'box', () => {});
  const model = { model: 'm', version: '1.0', workerId: '9000' };
  modelChanged.publish({ ...model, change: 'registered' });
  batchDispatched.publish({ ...model, items: 4, release: 'full' });
  batchRan.publish({ ...model, rows: 7, items: 4 });
  workerChanged.publish({ ...model, pid: 7, state: 'ready', loadSeconds: 1.5 });
  const text = render(registry.all, 'text');
  expect(text).toContain('\nonnxserve_batch_size_sum{model="m",version="1.0"} 4\n');
  expect(text).toContain('\nonnxserve_batch_rows_bucket{model="m",version="1.0",le="4.0"} 0\n');
  expect(text).toContain('\nonnxserve_batch_rows_bucket{model="m",version="1.0",le="8.0"} 1\n');
  expect(text).toContain('\nonnxserve_batch_release_total{model="m",version="1.0",reason="full"} 1\n');
  expect(text).toContain('\nonnxserve_model_load_seconds_count{model="m",version="1.0"} 1\n');
  expect(text).toContain('\nWorkerLoadTime{WorkerName="W-9000-m_1.0",Level="Host",Hostname="box"} 1500\n');
  workerChanged.publish({ ...model, pid: undefined, state: 'stopped' });
  recorder.close();
  batchRan.publish({ ...model, rows: 7, items: 4 });
  const after = render(registry.all, 'text');
  expect(after).not.toContain('W-9000');
  expect(after).toContain('\nonnxserve_batch_rows_count{model="m",version="1.0"} 1\n');
});
