import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeMar, type MarOptions } from './mar.js';
import { until } from './until.js';

const program = fileURLToPath(new URL('../../packages/runtime/bin/onnxserve.js', import.meta.url));

export interface ServerOptions {
  /** Archives by file name without `.mar`. */
  readonly models?: Readonly<Record<string, MarOptions>>;
  /** config.properties; beats the defaults below. */
  readonly config?: Readonly<Record<string, string | number | boolean>>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** True: start-up models may fail; `failures` tells which. */
  readonly mayFail?: boolean;
  /** `listening`: does not wait for the start-up models. Default `ready`. */
  readonly at?: 'listening' | 'ready';
}

/** A worker as describe shows it. */
export interface Worker {
  readonly id: string;
  readonly status: string;
  readonly state: string;
  readonly pid: number;
  readonly restarts: number;
  readonly lastError?: string;
}
export interface Model {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly minWorkers: number;
  readonly maxWorkers: number;
  readonly batchSize: number;
  readonly maxBatchDelay: number;
  readonly responseTimeout: number;
  readonly lastError?: string;
  readonly warnings?: readonly string[];
  readonly workers: readonly Worker[];
}

export interface TestServer {
  readonly inference: string;
  readonly management: string;
  readonly metrics: string;
  /** `127.0.0.1:7070`. */
  readonly grpcInference: string;
  readonly grpcManagement: string;
  readonly store: string;
  /** Start-up models that could not be loaded, a sentence each. */
  readonly failures: readonly string[];
  /** Everything it printed. */
  logs(): string;
  /** @throws when the answer is not 200 */
  describe(model: string, version?: string): Promise<Model>;
  /** Waits until the model has as many ready workers as asked, its minWorkers by default. */
  untilReady(model: string, workers?: number): Promise<Model>;
  addModel(name: string, options: MarOptions): Promise<void>;
  /** The process of the front. */
  readonly pid: number;
  /** Its exit code, or the signal that ended it, when it ends. */
  readonly exit: Promise<number | string | null>;
  /** Ends it and waits for that. @returns the exit code, or the signal that ended it */
  stop(): Promise<number | string | null>;
}

interface Started {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly store: string;
  readonly output: () => string;
  readonly exit: Promise<number | string | null>;
}

async function launch(options: ServerOptions): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'onnxserve-test-'));
  const store = join(folder, 'model_store');
  const temp = join(folder, 'tmp');
  await mkdir(store);
  await mkdir(temp);
  const names = Object.keys(options.models ?? {});
  for (const name of names) await makeMar(store, name, options.models?.[name] ?? {});
  const config = {
    inference_address: 'http://127.0.0.1:0',
    management_address: 'http://127.0.0.1:0',
    metrics_address: 'http://127.0.0.1:0',
    grpc_inference_port: 0,
    grpc_management_port: 0,
    disable_token_authorization: true,
    enable_model_api: true,
    metrics_mode: 'prometheus',
    default_workers_per_model: 1,
    load_models: names.map((name) => `${name}.mar`).join(','),
    ...options.config,
  };
  const file = join(folder, 'config.properties');
  await writeFile(
    file,
    Object.entries(config)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
  const args = [program, 'start', '--foreground', '--ts-config', file, '--model-store', store, '--ncs', ...(options.args ?? [])];
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, TMPDIR: temp, ONNXSERVE_ANNOUNCE: '1', ...options.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const pieces: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => pieces.push(data));
  // `close` comes after the last output, `exit` may come before it.
  const exit = new Promise<number | string | null>((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)));
  return { child, folder, store, output: () => Buffer.concat(pieces).toString('utf8'), exit };
}

interface Announcement {
  readonly inference: string;
  readonly management: string;
  readonly metrics: string;
  readonly grpcInference: string;
  readonly grpcManagement: string;
  /** Start-up models that could not be loaded. */
  readonly failures?: readonly string[];
}

/** Waits for the line that tells the addresses, printed when every start-up model has been loaded. */
async function announced({ child, output, exit }: Started, event: string): Promise<Announcement> {
  const line = new Promise<Announcement>((resolve) => {
    const look = () => {
      const complete = output().split('\n').slice(0, -1);
      const found = complete.find((text) => text.startsWith(`{"event":"${event}"`));
      if (found === undefined) return;
      child.stdout?.off('data', look);
      resolve(JSON.parse(found) as Announcement);
    };
    child.stdout?.on('data', look);
  });
  const ended = exit.then((code) => {
    throw new Error(`the server ended with ${code} instead of listening:\n${output()}`);
  });
  return await Promise.race([line, ended]);
}

/** Starts the real command on free ports and waits until every start-up model is ready. */
export async function startServer(options: ServerOptions): Promise<TestServer> {
  const started = await launch(options);
  const { child, folder, store, output, exit } = started;
  const stop = async () => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
    const code = await exit;
    clearTimeout(timer);
    await rm(folder, { recursive: true, force: true });
    return code;
  };
  try {
    const { failures = [], ...addresses } = await announced(started, options.at ?? 'ready');
    const { management } = addresses;
    if (failures.length > 0 && options.mayFail !== true)
      throw new Error(`start-up models failed: ${JSON.stringify(failures)}\n${output()}`);
    const describe = async (model: string, version?: string): Promise<Model> => {
      const path = [model, version].filter((part) => part !== undefined).map((part) => encodeURIComponent(part));
      const response = await fetch(`${management}/models/${path.join('/')}`);
      if (!response.ok) throw new Error(`describe ${model}: ${response.status} ${await response.text()}`);
      const [first] = (await response.json()) as Model[];
      if (first === undefined) throw new Error(`describe ${model}: no version`);
      return first;
    };
    const untilReady = (model: string, workers?: number) =>
      until(async () => {
        const found = await describe(model);
        const ready = found.workers.filter(({ status }) => status === 'READY').length;
        return ready >= (workers ?? found.minWorkers) ? found : undefined;
      }, `${model} is ready`);
    const addModel = async (name: string, mar: MarOptions) => void (await makeMar(store, name, mar));
    return { ...addresses, store, failures, logs: output, pid: child.pid ?? 0, exit, describe, untilReady, addModel, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Starts a server for one piece of work, and stops it whatever becomes of that. */
export async function withServer(options: ServerOptions, work: (server: TestServer) => Promise<void>): Promise<void> {
  const server = await startServer(options);
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

/** Runs the command until it ends by itself, for starts that must be refused. */
export async function runToEnd(options: ServerOptions): Promise<{ code: number | string | null; output: string }> {
  const { child, folder, output, exit } = await launch(options);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, 30_000);
  const code = await exit;
  clearTimeout(timer);
  await rm(folder, { recursive: true, force: true });
  if (late) throw new Error(`the server did not end by itself:\n${output()}`);
  return { code, output: output() };
}
