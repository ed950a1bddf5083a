import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { workerLog, type WorkerLog } from '../domain/events.js';
import { LogLevels } from '../domain/log-levels.js';
import { LogFiles } from './log-files.js';
import { WorkerLogWriter } from './worker-log.js';

let folder: string;
let dropped: number;
let time: number;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'worker-'));
  dropped = 0;
  time = Date.now();
});
afterEach(() => rmSync(folder, { recursive: true }));

const line = (message: string, more: Partial<WorkerLog> = {}): WorkerLog => ({
  model: 'm',
  version: '1.0',
  workerId: '9000',
  level: 'info',
  stream: 'stdout',
  message,
  ...more,
});

async function written(events: Iterable<WorkerLog>, format: 'torchserve' | 'json' = 'torchserve'): Promise<string> {
  const files = new LogFiles({
    maxBytes: 1e8,
    keep: 10,
    warn: () => undefined,
    logLocation: folder,
    metricsLocation: undefined,
    toStdout: false,
  });
  const writer = new WorkerLogWriter({
    files,
    levels: new LogLevels({ server: 'info', access: 'info', model: 'info', accessProbes: false }),
    format,
    now: () => time,
    dropped: (_model, _version, bytes) => (dropped += bytes),
  });
  for (const event of events) workerLog.publish(event);
  writer.close();
  await files.close();
  return readFileSync(join(folder, 'model_log.log'), 'utf8');
}

it("writes TorchServe's pattern, and what comes on stderr as a warning", async () => {
  const text = await written([
    line('hello'),
    line('careful', { stream: 'stderr' }),
    line('quiet', { stream: 'log', level: 'debug' }),
  ]);
  expect(text).toMatch(
    /^\S+ \[INFO \] W-9000-m_1\.0-stdout MODEL_LOG - hello\n\S+ \[WARN \] W-9000-m_1\.0-stderr MODEL_LOG - careful\n$/,
  );
});

it('keeps a stack in one record', async () => {
  const stack = ['Error: no', '    at f (file.js:1:1)', '    at g (file.js:2:2)', 'next'];
  const records = (
    await written(
      stack.map((message) => line(message, { stream: 'stderr' })),
      'json',
    )
  )
    .trim()
    .split('\n')
    .map((it) => JSON.parse(it) as { message: string });
  expect(records.map((it) => it.message)).toEqual([stack.slice(0, 3).join('\n'), 'next']);
});

it('hides secrets and cuts endless records', async () => {
  const text = await written([line(`Bearer abcdef ${'x'.repeat(200_000)}`, { stream: 'log' })]);
  expect(text).not.toContain('abcdef');
  expect(text.length).toBeLessThan(66_000);
  expect(text).toMatch(/characters cut off\)\n$/);
});

it('drops what a worker writes faster than the limit and says how much', async () => {
  function* flood() {
    for (let at = 0; at < 20_000; at++) yield line('y'.repeat(1000));
  }
  const text = await written(flood());
  expect(text.length).toBeLessThan(5 * 1024 * 1024);
  expect(dropped).toBeGreaterThan(15_000_000);
  const said = /(\d+) lines \((\d+) characters\) of this worker were dropped/.exec(text) ?? [];
  expect(Number(said[2])).toBe(dropped);
  expect(Number(said[1]) + text.split('y'.repeat(1000)).length - 1).toBe(20_000);
});

it('lets a worker go on after a flood', async () => {
  function* later() {
    for (let at = 0; at < 10_000; at++) yield line('y'.repeat(1000));
    time += 2000;
    yield line('calm again');
  }
  expect(await written(later())).toContain('MODEL_LOG - calm again');
});
