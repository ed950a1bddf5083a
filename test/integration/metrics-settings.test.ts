import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, post } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { type Exposition, parseExposition } from '../helpers/exposition.js';
import { runToEnd, type TestServer, withServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const emits = `
export default {
  handle: (batch) => batch.map(({ request, ctx }) => {
    const { counters = {}, scores = [], lang } = request.json();
    for (const [name, value] of Object.entries(counters)) ctx.metrics.counter(name, value, lang === undefined ? {} : { lang });
    for (const score of scores) ctx.metrics.histogram('Score', score);
    return { pid: process.pid };
  }),
};`;
const models = { emits: { handlerSource: emits, config: { minWorkers: 2, maxWorkers: 2 } } };
const predict = async (to: TestServer, body: unknown) => {
  const answer = await post(`${to.inference}/predictions/emits`, body);
  expect(answer.status).toBe(200);
  return (answer.json as { pid: number }).pid;
};

/** Everything on the endpoint, read strictly; comments of ours at its top are left out. */
async function scrape(from: TestServer): Promise<Exposition> {
  const { text } = await get(`${from.metrics}/metrics`);
  return parseExposition(text.replace(/^# (?!HELP|TYPE).*\n/gm, ''));
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metrics-settings-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function script(name: string, text: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, `#!/bin/sh\n${text}\n`);
  await chmod(file, 0o755);
  return file;
}
describe('metrics of handlers', () => {
  it('follow the metrics_config file, add up over workers and outlive them', async () => {
    const file = join(folder, 'metrics.yaml');
    await writeFile(
      file,
      `dimensions: [&model ModelName, &level Level]
ts_metrics:
  counter: [{name: Requests2XX, unit: Count, dimensions: [*level, Hostname]}]
model_metrics:
  counter: [{name: Words, unit: words, dimensions: [*model, *level, lang]}]
  histogram: [{name: Score, unit: percent, dimensions: [*model, *level], buckets: [10, 50]}]
onnxserve_metrics:
  histogram: [{name: onnxserve_batch_size, buckets: [1, 2]}]
`,
    );
    const config = { metrics_config: file, model_metrics_auto_detect: false };
    await withServer({ models, config }, async (server) => {
      const pids = new Set<number>();
      const send = async () =>
        pids.add(await predict(server, { counters: { Words: 2, Unlisted: 1 }, scores: [20, 60], lang: 'en' }));
      let sent = 0;
      const both = async () => {
        await Promise.all(Array.from({ length: 10 }, send));
        sent += 10;
      };
      await until(async () => {
        await both();
        return pids.size > 1 ? true : undefined;
      }, 'both workers were used');
      const [victim] = pids;
      process.kill(victim!, 'SIGKILL');
      await until(async () => {
        const found = (await server.describe('emits')).workers;
        return found.every(({ pid, status }) => pid !== victim && status === 'READY') ? true : undefined;
      }, 'the worker is replaced');
      await both();
      await until(async () => ((await scrape(server)).sum('Words') === 2 * sent ? true : undefined), 'all words are counted');
      const now = await scrape(server);
      expect(now.types.get('Words')).toBe('counter');
      expect(now.of('Words')).toEqual([
        { name: 'Words', labels: expect.objectContaining({ ModelName: 'emits', Level: 'Model', lang: 'en' }), value: 2 * sent },
      ]);
      expect(now.sum('Score_bucket', { le: '50.0' })).toBe(sent);
      expect(now.sum('Score_count')).toBe(2 * sent);
      expect(now.types.has('Unlisted')).toBe(false);
      expect(now.sum('onnxserve_handler_metrics_refused_total', { reason: 'not-listed' })).toBe(sent);
      await server.stop();
      expect(server.logs().match(/Unlisted.*model_metrics_auto_detect=false/g)).toHaveLength(1);
      expect(now.of('onnxserve_batch_size_bucket').map(({ labels }) => labels['le'])).toEqual(['1.0', '2.0', '+Inf']);
      // Only what the file lists of TorchServe's families, under their own labels; ours are all there.
      expect(now.of('Requests2XX').map(({ labels }) => Object.keys(labels))).toEqual([['Level', 'Hostname']]);
      expect(now.types.has('Requests4XX')).toBe(false);
      expect(now.types.has('onnxserve_requests_total')).toBe(true);
    });
  });

  it('are there without any setting, up to the limits', async () => {
    const config = { max_handler_metrics: 3, max_handler_metric_series: 5 };
    await withServer({ models, config }, async (server) => {
      await predict(server, { counters: { A: 1, B: 1 }, scores: [1] });
      await predict(server, { counters: { C: 1, D: 1 } });
      await until(async () => ((await scrape(server)).sum('Score_count') === 1 ? true : undefined), 'the metrics have arrived');
      const refused = async (reason: string) => (await scrape(server)).sum('onnxserve_handler_metrics_refused_total', { reason });
      await until(async () => ((await refused('metric-limit')) === 2 ? true : undefined), 'two are too many');
      const { types } = await scrape(server);
      expect(['A', 'B', 'Score', 'C', 'D'].filter((name) => types.has(name))).toEqual(['A', 'B', 'Score']);
      await until(async () => (server.logs().includes('max_handler_metrics') ? true : undefined), 'there is a warning');
      await server.stop();
      expect(server.logs().match(/max_handler_metrics/g)).toHaveLength(1);
    });
  });
});

describe('a metrics_config file with mistakes', () => {
  const text = `ts_metrics:
  counter:
    - {name: Requests2XX, dimensions: [Path]}
  gouge: []
model_metrics:
  gauge:
    - name: Score
    - name: Score
`;
  it('ends the start with file, line and key of each', async () => {
    const file = join(folder, 'wrong.yaml');
    await writeFile(file, text);
    const { code, output } = await runToEnd({ models, config: { metrics_config: file } });
    expect(code).toBe(1);
    expect(output).toContain(`${file}:3: ts_metrics.counter[0].dimensions: the dimensions of "Requests2XX" are Level, Hostname`);
    expect(output).toContain(`${file}:4: ts_metrics.gouge: there is no type of metric "gouge", did you mean gauge?`);
    expect(output).toContain(
      `${file}:8: model_metrics.gauge[1].name: "Score" is declared twice, first as model_metrics.gauge[0] in line 7`,
    );
    expect(output).not.toMatch(/^\s+at /m);
    const properties = join(folder, 'config.properties');
    await writeFile(properties, `metrics_config=${file}\nmodel_store=${folder}\n`);
    const checked = await runCommand(['check', '--ts-config', properties], folder);
    expect(checked.code).toBe(1);
    expect(checked.stderr.match(/error: metrics_config /g)).toHaveLength(3);
  });
});

describe('modes', () => {
  const serverFamilies = [
    'Requests2XX',
    'QueueTime',
    'ts_inference_requests_total',
    'ts_queue_latency_microseconds',
    'PredictionTime',
  ];

  it.each([
    ['LOG', []],
    ['legacy', ['ts_inference_requests_total', 'ts_queue_latency_microseconds']],
    ['Prometheus', serverFamilies],
  ])('%s: which of TorchServe families are on the endpoint; ours and those of handlers always are', async (mode, there) => {
    await withServer({ models, config: { metrics_mode: mode } }, async (server) => {
      await predict(server, { counters: { Words: 2 } });
      await until(async () => ((await scrape(server)).sum('Words') === 2 ? true : undefined), 'the metric has arrived');
      const now = await scrape(server);
      expect(serverFamilies.filter((name) => now.types.has(name))).toEqual(there);
      expect(now.sum('onnxserve_requests_total', { model: 'emits', outcome: 'ok' })).toBe(1);
      const { text } = await get(`${server.metrics}/metrics`);
      expect(text.startsWith('# Of') || text.includes('# TorchServe')).toBe(mode !== 'Prometheus');
      if (there.length > 0)
        expect(now.of('ts_inference_requests_total').map(({ labels }) => Object.keys(labels))[0]).toEqual([
          'model_name',
          'model_version',
          'hostname',
        ]);
    });
  });
});

describe('nvidia-smi', () => {
  const gpuFamilies = ['GPUUtilization', 'GPUMemoryUsed', 'GPUMemoryUtilization'];
  const run = async (text: string, work: (server: TestServer) => Promise<void>) => {
    await script('nvidia-smi', text);
    const environment = { PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}` };
    await withServer({ models, config: { metric_time_interval: 1 }, environment }, work);
  };
  const log = () => join(folder, 'asked');
  const asked = (times: number) =>
    until(async () => {
      const text = await readFile(log(), 'utf8').catch(() => '');
      return text.length >= times ? true : undefined;
    }, `it was asked ${times} times`);

  it.each([
    ['prints garbage', 'echo "NVIDIA-SMI has failed because it could not communicate"', /not understood/, 3],
    ['fails', 'echo "No devices were found"; exit 9', /exited with 9: No devices were found/, 3],
    ['is slow', 'sleep 60; echo never', /did not answer within 5 s/, 1],
  ])('that %s: the server works, one warning, no GPU series', async (_, text, why, times) => {
    await rm(log(), { force: true });
    await run(`printf x >> ${log()}\n${text}`, async (server) => {
      await predict(server, {});
      await until(async () => (/no GPU metrics/.test(server.logs()) ? true : undefined), 'there is a warning');
      await asked(times);
      const now = await scrape(server);
      for (const family of gpuFamilies) expect(now.of(family)).toEqual([]);
      await server.stop();
      const lines = server
        .logs()
        .split('\n')
        .filter((line) => line.includes('nvidia-smi'));
      expect(lines).toEqual([expect.stringMatching(why)]);
    });
  });

  it('of whole and partitioned devices: what a device does not say is missing, not 0', async () => {
    await run(
      'printf "0, 37, 1024, 4096\\n1, [N/A], 512, 2048\\n2, [Not Supported], [Insufficient Permissions], 40960\\n"',
      async (server) => {
        await until(
          async () => ((await scrape(server)).of('GPUMemoryUsed').length > 0 ? true : undefined),
          'GPU metrics are there',
        );
        const now = await scrape(server);
        const by = (family: string) => Object.fromEntries(now.of(family).map(({ labels, value }) => [labels['DeviceId'], value]));
        expect(by('GPUUtilization')).toEqual({ 0: 37 });
        expect(by('GPUMemoryUsed')).toEqual({ 0: 1024, 1: 512 });
        expect(by('GPUMemoryUtilization')).toEqual({ 0: 25, 1: 25 });
        expect(server.logs()).not.toContain('nvidia-smi');
      },
    );
  });
});

describe('system metrics', () => {
  it('of the host are percentages and sizes that can be, and tell of the folders that fill up', async () => {
    await withServer({ models, config: { number_of_gpu: 0 } }, async (server) => {
      await until(
        async () => ((await scrape(server)).of('CPUUtilization').length > 0 ? true : undefined),
        'CPU time was measured',
      );
      const now = await scrape(server);
      for (const name of ['CPUUtilization', 'MemoryUtilization', 'DiskUtilization']) {
        expect(now.sum(name)).toBeGreaterThanOrEqual(0);
        expect(now.sum(name)).toBeLessThanOrEqual(100);
      }
      for (const name of ['MemoryUsed', 'MemoryAvailable', 'DiskUsage', 'DiskAvailable'])
        expect(now.sum(name)).toBeGreaterThan(0);
      const folders = now.of('onnxserve_disk_free_bytes').map(({ labels }) => labels['folder']);
      expect(new Set(folders)).toEqual(new Set(['log_location', 'model_store', 'temp_directory']));
    });
  });

  it('are not there with disable_system_metrics=true', async () => {
    await withServer({ models, config: { disable_system_metrics: true } }, async (server) => {
      await predict(server, { counters: { Words: 1 } });
      await until(async () => ((await scrape(server)).sum('Words') === 1 ? true : undefined), 'the metric has arrived');
      const now = await scrape(server);
      for (const name of ['CPUUtilization', 'MemoryUsed', 'DiskUsage', 'GPUUtilization', 'onnxserve_disk_free_bytes'])
        expect(now.of(name)).toEqual([]);
      expect(now.sum('Requests2XX')).toBeGreaterThan(0);
    });
  });

  it('come from the program of system_metrics_cmd instead', async () => {
    const program = await script(
      'collector',
      `cat > /dev/null
echo "CPUUtilization.Percent:12.5|#Level:Host|#hostname:other,timestamp:1714564800"
echo "FanSpeed.rpm:900|#Level:Host,Fan:$1|#hostname:other,timestamp:1714564800"
echo "no metric"`,
    );
    const config = { system_metrics_cmd: `${program} "left one"`, metric_time_interval: 1, metrics_mode: 'prometheus' };
    await withServer({ models, config }, async (server) => {
      await until(async () => ((await scrape(server)).sum('FanSpeed') === 900 ? true : undefined), 'its metrics are there');
      const now = await scrape(server);
      expect(now.of('CPUUtilization')).toEqual([
        { name: 'CPUUtilization', labels: { Level: 'Host', Hostname: 'other' }, value: 12.5 },
      ]);
      expect(now.of('FanSpeed').map(({ labels }) => labels)).toEqual([{ Level: 'Host', Fan: 'left one', Hostname: 'other' }]);
      expect(now.of('MemoryUsed')).toEqual([]);
      await server.stop();
      expect(server.logs().match(/system_metrics_cmd=.*no metric/g)).toHaveLength(1);
    });
  });
});
