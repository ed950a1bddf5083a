import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { command } from './paths.js';
import type { WorkloadName } from './workloads.js';

/** Something that answers requests in a process of its own. */
export interface Contestant {
  readonly url: string;
  readonly readyMs: number;
  stop(): Promise<void>;
}

/** Waits for a line on standard output that `found` makes something of. @throws with what was printed when the process ends before */
function line<Found>(child: ChildProcess, found: (text: string) => Found | undefined): Promise<Found> {
  const printed: string[] = [];
  child.stderr?.on('data', (data: Buffer) => void printed.push(data.toString()));
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (text) => {
      printed.push(`${text}\n`);
      if (printed.length > 200) printed.shift();
      const it = found(text);
      if (it !== undefined) resolve(it);
    });
    child.once('exit', (code) => reject(new Error(`the server ended with ${code} before it was ready:\n${printed.join('')}`)));
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const giveUp = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await exit;
  clearTimeout(giveUp);
}

export interface OnnxserveProcess extends Omit<Contestant, 'url'> {
  readonly inference: string;
  readonly management: string;
  readonly metrics: string;
}

/** onnxserve with one workload, on free ports, its logs in `folder`. */
export async function startWorkload(name: WorkloadName, store: string, folder: string): Promise<Contestant> {
  const server = await startOnnxserve([`${name}=${name}.mar`], store, folder);
  return { ...server, url: `${server.inference}/predictions/${name}` };
}

/** @param config keys of config.properties */
export async function startOnnxserve(
  models: readonly string[],
  store: string,
  folder: string,
  config: Readonly<Record<string, string>> = {},
): Promise<OnnxserveProcess> {
  const temp = join(folder, 'tmp');
  mkdirSync(temp, { recursive: true });
  const addresses = ['inference_address', 'management_address', 'metrics_address'].map((key) => [key, 'http://127.0.0.1:0']);
  const grpcPorts = ['grpc_inference_port', 'grpc_management_port'].map((key) => [key, '0']);
  const settings = [...addresses, ...grpcPorts, ...Object.entries(config)].flatMap(([key, value]) => [
    '--set',
    `${key}=${value}`,
  ]);
  const args = [
    command,
    'start',
    '--model-store',
    store,
    '--models',
    ...models,
    '--no-config-snapshots',
    '--disable-token-auth',
    '--enable-model-api',
    ...settings,
  ];
  const started = performance.now();
  const env = {
    ...process.env,
    ONNXSERVE_ANNOUNCE: '1',
    TMPDIR: temp,
    TEMP: temp,
    LOG_LOCATION: folder,
    METRICS_LOCATION: folder,
  };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  try {
    const { failures, ...addresses } = await line(child, (text) => {
      if (!text.startsWith('{"event":"ready"')) return undefined;
      return JSON.parse(text) as Record<'inference' | 'management' | 'metrics', string> & {
        readonly failures: readonly string[];
      };
    });
    if (failures.length > 0) throw new Error(failures.join('\n'));
    return { ...addresses, readyMs: performance.now() - started, stop: () => ended(child) };
  } catch (error) {
    await ended(child);
    throw error;
  }
}

/** A bare Node server that sends each body back: what an HTTP front in Node can do at most. */
export async function startEcho(): Promise<Contestant> {
  const started = performance.now();
  const child = spawn(process.execPath, [join(import.meta.dirname, 'echo.js')], { stdio: ['ignore', 'pipe', 'pipe'] });
  const url = await line(child, (text) => (text.startsWith('http://') ? text : undefined));
  return { url, readyMs: performance.now() - started, stop: () => ended(child) };
}
