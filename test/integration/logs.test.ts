import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, messageOf, post, send } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { makeMar } from '../helpers/mar.js';
import { parentOf } from '../helpers/process.js';
import { startServer, type TestServer, withServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const talks = `
export default {
  handle: (batch) => batch.map(({ request, ctx }) => {
    const text = request.text();
    ctx.log.debug('debugging ' + text);
    ctx.log.info('informing ' + text);
    ctx.metrics.counter('Words', 2);
    return { pid: process.pid };
  }),
};`;
const models = { talks: { handlerSource: talks, config: { minWorkers: 1, maxWorkers: 2 } } };
const predict = (to: TestServer, text: string, id = text) =>
  post(`${to.inference}/predictions/talks`, text, { 'x-request-id': id });
const logFolder = (of: TestServer) => join(dirname(of.store), 'logs');
/** All lines of a log, those of files that were moved aside too. */
async function linesOf(folder: string, stem: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.startsWith(`${stem}.`));
  const texts = await Promise.all(names.map(async (name) => await readFile(join(folder, name), 'utf8')));
  return texts.flatMap((text) => text.split('\n')).filter((line) => line !== '');
}
describe('levels at run time', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ models });
  });
  afterAll(() => server.stop());
  const change = async (query: string) => await send('PUT', `${server.management}/logging?${query}`);
  const said = (text: string) => until(async () => (server.logs().includes(text) ? true : undefined), `the log has "${text}"`);

  it('are told', async () => {
    const { status, json } = await get(`${server.management}/logging`);
    expect(status).toBe(200);
    expect(json).toEqual({ server: 'info', access: 'info', model: 'info', access_probes: false });
  });

  it('of handlers reach running workers and later ones', async () => {
    await predict(server, 'one');
    await said('informing one');
    expect(server.logs()).not.toContain('debugging one');
    expect((await change('model=debug')).json).toMatchObject({ server: 'info', model: 'debug' });
    const { pid } = (await predict(server, 'two')).json as { pid: number };
    await said('debugging two');
    process.kill(pid, 'SIGKILL');
    await until(async () => {
      const answer = await predict(server, 'three');
      return answer.status === 200 && (answer.json as { pid: number }).pid !== pid ? true : undefined;
    }, 'another worker answers');
    await said('debugging three');
    await change('model=warn');
    await predict(server, 'four');
    await change('level=info');
    await predict(server, 'five');
    await said('informing five');
    expect(server.logs()).not.toMatch(/(informing|debugging) four/);
    expect(server.logs()).toMatch(/log levels change server=info access=info model=debug/);
  });

  it('leave a line when the log is made quieter, too', async () => {
    await change('server=error');
    await said('log levels change server=error');
    await change('server=info');
    await said('log levels change server=info');
  });

  it('of the access log', async () => {
    await change('access=warn');
    await predict(server, 'x', 'hidden-id');
    await change('access=info');
    await get(`${server.inference}/ping`);
    await predict(server, 'x', 'shown-id');
    await said('id=shown-id');
    expect(server.logs()).not.toContain('id=hidden-id');
    expect(server.logs()).not.toContain('"GET /ping');
    await change('access_probes=true');
    await get(`${server.inference}/ping`);
    await said('"GET /ping HTTP/1.1" 200');
    await change('access_probes=false');
  });

  it.each([
    ['PUT', 'level=loud', 400, /levels are debug, info, warn, error, silent/],
    ['PUT', 'levle=debug', 400, /levle is unknown; known are level, server, access, model, access_probes/],
    ['PUT', 'access_probes=maybe', 400, /neither true nor false/],
    ['PUT', '', 400, /Nothing to change/],
    ['POST', 'level=debug', 405, /GET, PUT/],
  ])('refuse %s %s', async (method, query, status, why) => {
    const before = (await get(`${server.management}/logging`)).json;
    const answer = await send(method, `${server.management}/logging?${query}`);
    expect(answer.status).toBe(status);
    expect(`${messageOf(answer)} ${answer.headers.get('allow') ?? ''}`).toMatch(why);
    expect((await get(`${server.management}/logging`)).json).toEqual(before);
  });

  it('belong to the management listener', async () => {
    const answer = await get(`${server.inference}/logging`);
    expect(answer.status).toBe(404);
    expect(messageOf(answer)).toContain('management listener');
  });
});

it('levels of each log are settings', async () => {
  const config = { log_level: 'info', access_log_level: 'silent', model_log_level: 'debug', access_log_probes: true };
  await withServer({ models, config }, async (server) => {
    expect((await get(`${server.management}/logging`)).json).toEqual({
      server: 'info',
      access: 'silent',
      model: 'debug',
      access_probes: true,
    });
    await predict(server, 'one');
    await until(async () => (server.logs().includes('debugging one') ? true : undefined), 'the handler is heard');
    await server.stop();
    expect(server.logs()).not.toContain('ACCESS_LOG');
    expect(server.logs()).toContain('onnxserve - stopped');
  });
});

it('files begin anew at their size without losing a line', async () => {
  const config = { log_max_size: 4000, log_max_files: 1000, log_stdout: false };
  await withServer({ models, config }, async (server) => {
    const folder = logFolder(server);
    const ids: string[] = [];
    await until(async () => {
      const round = Array.from({ length: 20 }, (_, at) => `id-${ids.length + at}-`);
      ids.push(...round);
      await Promise.all(round.map((id) => predict(server, 'x', id)));
      return (await readdir(folder)).filter((name) => name.startsWith('access_log.')).length > 3 ? true : undefined;
    }, 'three files were moved aside');
    await until(async () => {
      const text = (await linesOf(folder, 'access_log')).join('\n');
      return ids.every((id) => text.split(`id=${id}`).length === 2) ? true : undefined;
    }, 'every line is there, once');
    const names = (await readdir(folder)).filter((name) => name.startsWith('access_log.'));
    for (const name of names) expect(name).toMatch(/^access_log\.(\d{4}-\d\d-\d\d\.\d+\.)?log$/);
  });
});

it('files that another program moved away are left to it, at once on SIGHUP', async () => {
  await withServer({ models, config: { log_max_size: 0 } }, async (server) => {
    const file = join(logFolder(server), 'access_log.log');
    const has = (path: string, text: string) =>
      until(
        async () => ((await readFile(path, 'utf8').catch(() => '')).includes(text) ? true : undefined),
        `${path} has ${text}`,
      );
    await predict(server, 'x', 'first');
    await has(file, 'id=first');
    await rename(file, `${file}.1`);
    const [worker] = (await server.describe('talks')).workers;
    process.kill(await parentOf(worker!.pid), 'SIGHUP');
    await until(
      async () => ((await readdir(logFolder(server))).includes('access_log.log') ? true : undefined),
      'it is opened anew',
    );
    await predict(server, 'x', 'second');
    await has(file, 'id=second');
    await rename(file, `${file}.2`);
    // Noticed without a signal, within a second.
    await until(async () => {
      await predict(server, 'x', 'third');
      return (await readdir(logFolder(server))).includes('access_log.log') ? true : undefined;
    }, 'it is opened anew');
    expect(await readFile(`${file}.2`, 'utf8')).toContain('id=second');
    await has(file, 'id=third');
  });
});

it('a full disk costs no request and no line', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'full-'));
  try {
    await mkdir(join(folder, 'logs'));
    for (const name of ['access_log', 'ts_log', 'model_log']) await symlink('/dev/full', join(folder, 'logs', `${name}.log`));
    const environment = { LOG_LOCATION: join(folder, 'logs'), METRICS_LOCATION: join(folder, 'logs') };
    await withServer({ models, config: { log_stdout: false }, environment }, async (server) => {
      for (const id of ['first', 'second', 'third']) {
        expect((await predict(server, id)).status).toBe(200);
        await until(async () => (server.logs().includes(`id=${id}`) ? true : undefined), 'the line is on standard output');
      }
      expect(server.logs().match(/cannot be written \(ENOSPC/g)).toHaveLength(1);
      expect((await get(`${server.inference}/health/live`)).status).toBe(200);
      expect(await server.stop()).toBe(0);
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});

it('a server in the background logs to the files alone, which are bounded', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'background-'));
  const environment = { TMPDIR: folder, TEMP: folder, ONNXSERVE_ANNOUNCE: '1' };
  try {
    await makeMar(folder, 'talks', models.talks);
    const address = 'http://127.0.0.1:0';
    const settings = {
      inference_address: address,
      management_address: address,
      metrics_address: address,
      load_models: 'talks.mar',
    };
    const more = { grpc_inference_port: 0, grpc_management_port: 0, disable_token_authorization: true };
    const lines = Object.entries({ ...settings, ...more }).map(([key, value]) => `${key}=${value}\n`);
    await writeFile(join(folder, 'config.properties'), lines.join(''));
    const started = await runCommand(
      ['start', '--daemon', '--ts-config', 'config.properties', '--model-store', folder],
      folder,
      environment,
    );
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/is running, process \d+/) });
    const printed = await readFile(join(folder, 'onnxserve.out'), 'utf8');
    const { inference } = JSON.parse(/^\{"event":"ready".*$/m.exec(printed)?.[0] ?? '{}') as { inference: string };
    expect((await post(`${inference}/predictions/talks`, 'x', { 'x-request-id': 'mine' })).status).toBe(200);
    expect((await runCommand(['stop'], folder, environment)).code).toBe(0);
    expect((await linesOf(join(folder, 'logs'), 'access_log')).join('\n')).toContain('id=mine');
    const all = await readFile(join(folder, 'onnxserve.out'), 'utf8');
    expect(all).not.toContain('ACCESS_LOG');
    expect(all).not.toContain('MODEL_LOG');
  } finally {
    await runCommand(['stop'], folder, environment);
    await rm(folder, { recursive: true });
  }
});

describe('metric files', () => {
  const stamp = String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3} - `;

  it.each(['log', 'legacy'])('are written in mode %s, and the sums over their lines are right', async (mode) => {
    await withServer({ models, config: { metrics_mode: mode, metric_time_interval: 1 } }, async (server) => {
      for (const id of ['a', 'b', 'c']) await predict(server, id);
      const folder = logFolder(server);
      const sum = async (file: string, pattern: RegExp) => {
        const values = (await linesOf(folder, file)).map((line) => pattern.exec(line)?.[1]).filter((it) => it !== undefined);
        return values.reduce((total, value) => total + Number(value), 0);
      };
      const host = String.raw`\|#hostname:[^,|]+,`;
      const requests = new RegExp(
        String.raw`${stamp}ts_inference_requests_total\.Count:([\d.]+)\|#model_name:talks,model_version:default${host}timestamp:\d+$`,
      );
      const words = new RegExp(
        String.raw`${stamp}Words\.\w+:([\d.]+)\|#ModelName:talks,Level:Model${host}requestID:\w,timestamp:\d+$`,
      );
      await until(async () => ((await sum('ts_metrics', requests)) === 3 ? true : undefined), 'three requests are in the file');
      await until(async () => ((await sum('model_metrics', words)) === 6 ? true : undefined), 'six words are in the file');
      const lines = [...(await linesOf(folder, 'ts_metrics')), ...(await linesOf(folder, 'model_metrics'))];
      for (const line of lines)
        expect(line).toMatch(
          new RegExp(String.raw`${stamp}[\w ]+\.\w+:-?[\d.]+\|#[^|]*${host}(requestID:[^,]*,)?timestamp:\d+$`),
        );
      for (const name of ['Requests2XX', 'QueueTime', 'MemoryUsed', 'DiskUsage', 'HandlerTime', 'PredictionTime'])
        expect(
          lines.some((line) => line.includes(` - ${name}.`)),
          name,
        ).toBe(true);
    });
  });

  it('are not there in mode prometheus', async () => {
    await withServer({ models }, async (server) => {
      await predict(server, 'a');
      await server.describe('talks');
      expect((await readdir(logFolder(server))).filter((name) => name.includes('metrics'))).toEqual([]);
    });
  });
});
