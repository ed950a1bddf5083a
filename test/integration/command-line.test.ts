import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { get } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { startIn } from '../helpers/start-in.js';
import { until } from '../helpers/until.js';

const program = fileURLToPath(new URL('../../packages/runtime/bin/onnxserve.js', import.meta.url));
const ports = ['inference_address', 'management_address', 'metrics_address'].map((key) => `${key}=http://127.0.0.1:0`);

let cwd: string;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'command-'));
  await mkdir(join(cwd, 'store'));
  const lines = [...ports, 'grpc_inference_port=0', 'grpc_management_port=0', 'model_store=store'];
  await writeFile(join(cwd, 'config.properties'), `${lines.join('\n')}\n`);
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

const run = (...args: string[]) => runCommand(args, cwd, { TMPDIR: cwd, TEMP: cwd });
const pidFile = () => join(cwd, '.model_server.pid');

describe("torchserve's command line", () => {
  it.each([
    [['--version'], 0, /^onnxserve \d+\.\d+\.\d+/],
    [['-v'], 0, /^onnxserve \d+\.\d+\.\d+/],
    [['--start', '--model-store', '/nope'], 1, /model_store \/nope does not exist/],
    [['--start', '--ts-config', '/nope'], 1, /--ts-config: Cannot read the configuration file \/nope: there is no such file/],
    [['--start', '--log-config', '/nope'], 1, /--log-config: Cannot read \/nope: there is no such file/],
    [['--start', '--stop'], 2, /--start and --stop exclude each other/],
    [['--foo'], 2, /unknown option '--foo'/],
    [['start', '--foo'], 2, /unknown option '--foo'/],
    [['--stop'], 0, /not currently running/],
    [['--stop', '--foreground'], 0, /not currently running/],
    [['status'], 1, /not currently running/],
  ])('%j ends with %i and says why', async (args, code, text) => {
    const result = await run(...args);
    expect(result.stdout + result.stderr).toMatch(text);
    expect(result.code).toBe(code);
    expect(existsSync(pidFile())).toBe(false);
  });

  it('says so when no model store is given', async () => {
    await rm(join(cwd, 'config.properties'));
    const { code, stderr } = await run('--start');
    expect(code).toBe(1);
    expect(stderr).toContain('No model store: set model_store in the configuration file or give --model-store');
  });

  it('starts in the background, refuses a second one, and stops', async () => {
    const started = await run('--start', '--ncs', '--dt', '--enable-model-api', '--ppath', 'x', '--cpp-log-config', 'y');
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/onnxserve is running, process \d+/) });
    const pid = Number(readFileSync(pidFile(), 'utf8'));
    try {
      expect(started.stdout).toContain(String(pid));
      expect((await run('status')).code).toBe(0);
      const second = await run('--start', '--ncs');
      expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining(`a server is running already, process ${pid}`) });
    } finally {
      const stopped = await run('--stop');
      expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining('onnxserve has stopped.') });
    }
    expect(existsSync(pidFile())).toBe(false);
    expect(existsSync(join(cwd, 'logs/config'))).toBe(false);
  });

  it('reports a start in the background that fails', async () => {
    await writeFile(
      join(cwd, 'config.properties'),
      `${ports.join('\n')}\ngrpc_inference_port=0\ngrpc_management_port=0\nmodel_store=store\nload_models=lost.mar\n`,
    );
    const { code, stderr } = await run('--start', '--ncs');
    try {
      expect(code).toBe(1);
      expect(stderr).toContain('onnxserve.out');
    } finally {
      await run('--stop');
    }
  });

  it('does not take a foreign process for the server', async () => {
    await writeFile(pidFile(), `${process.ppid}\n`);
    expect(await run('--stop')).toMatchObject({ code: 0, stdout: expect.stringContaining('not currently running') });
    await writeFile(pidFile(), '999999999\n');
    expect((await run('status')).code).toBe(1);
  });

  it('starts under the pid that its killed predecessor had, as in a container that starts again', async () => {
    const script = 'echo $$ > .model_server.pid; exec "$@"';
    const child = spawn('sh', ['-c', script, 'sh', process.execPath, program, 'start', '--ncs'], {
      cwd,
      env: { ...process.env, TMPDIR: cwd, TEMP: cwd },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      if (text.includes('onnxserve listens')) child.kill('SIGTERM');
    });
    expect(await once(child, 'close')).toEqual([0, null]);
    expect(text).toContain('onnxserve listens');
  });

  it('stops a server whose parent does not notice its end', async () => {
    const script = '"$@" & exec sleep 60';
    const parent = spawn('sh', ['-c', script, 'sh', process.execPath, program, 'start', '--ncs'], {
      cwd,
      env: { ...process.env, TMPDIR: cwd, TEMP: cwd },
      stdio: 'ignore',
    });
    try {
      await until(async () => ((await run('status')).code === 0 ? true : undefined), 'the server');
      expect(await run('stop', '--timeout', '5')).toMatchObject({ code: 0, stdout: expect.stringContaining('has stopped') });
    } finally {
      parent.kill();
    }
  });

  it('refuses a time to wait that is none', async () => {
    expect(await run('stop', '--timeout', 'soon')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--timeout is "soon"'),
    });
  });

  it('LOG_LOCATION and METRICS_LOCATION choose the folders', async () => {
    const server = await startIn(cwd, ['--start', '--foreground', '--ncs', '--set', 'metrics_mode=log'], {
      LOG_LOCATION: join(cwd, 'here'),
      METRICS_LOCATION: join(cwd, 'there'),
    });
    expect((await get(`${server.inference}/ping`)).status).toBe(200);
    await until(async () => (existsSync(join(cwd, 'here/access_log.log')) ? true : undefined), 'the access log');
    await until(async () => (existsSync(join(cwd, 'there/ts_metrics.log')) ? true : undefined), 'the metrics log');
    await server.end();
  });

  it.each([
    ['job_queue_size=abc', 'config.properties:1: '],
    ['inference_address=nonsense', 'config.properties:1: '],
    ['blacklist_env_vars=[', 'config.properties:1: '],
    ['metrics_mode=zzz', 'config.properties:1: '],
    ['cors_allowed_origin=$$NOWHERE_SET$$', 'the environment has no NOWHERE_SET'],
  ])('a start with %s names file, line and value', async (line, text) => {
    await writeFile(join(cwd, 'config.properties'), `${line}\nmodel_store=store\n`);
    const { code, stderr } = await run('--start', '--foreground', '--ncs');
    expect(code).toBe(1);
    expect(stderr).toContain(text);
    expect(stderr).toContain(line.split('=')[0]);
  });
});
