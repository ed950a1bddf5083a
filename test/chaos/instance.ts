import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from '../helpers/until.js';
import type { Model } from '../helpers/server.js';

const program = fileURLToPath(new URL('../../packages/runtime/bin/onnxserve.js', import.meta.url));

export interface InstanceOptions {
  /** Logs and temporary files of the instance; may hold those of one before. */
  readonly folder: string;
  readonly store: string;
  readonly load: readonly string[];
  readonly config?: Readonly<Record<string, string | number | boolean>>;
  /** The most files that the front may have open. */
  readonly openFiles?: number;
}

/** A running server. */
export interface Instance {
  readonly pid: number;
  readonly inference: string;
  readonly management: string;
  readonly metrics: string;
  readonly grpcInference: string;
  readonly temp: string;
  /** The last of what it printed. */
  tail(): string;
  describe(model: string): Promise<Model>;
  untilReady(model: string, workers?: number): Promise<Model>;
  kill(signal: NodeJS.Signals): void;
  /** Exit code, or the signal that ended it. */
  readonly exit: Promise<number | string | null>;
  /** SIGTERM. @returns how it ended; a SIGKILL after 60 s is one way */
  stop(): Promise<number | string | null>;
}

/** Servers and proxies that run now. */
export const running = new Set<ChildProcess>();
/** For the end of the whole. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** Starts the real command and waits until its models are loaded. */
export async function launch(options: InstanceOptions): Promise<Instance> {
  const { folder } = options;
  const temp = String(options.config?.['temp_directory'] ?? join(folder, 'tmp'));
  await mkdir(temp, { recursive: true });
  const config = {
    inference_address: 'http://127.0.0.1:0',
    management_address: 'http://127.0.0.1:0',
    metrics_address: 'http://127.0.0.1:0',
    grpc_inference_port: 0,
    grpc_management_port: 0,
    disable_token_authorization: true,
    enable_model_api: true,
    load_models: options.load.map((name) => `${name}.mar`).join(','),
    temp_directory: temp,
    log_location: join(folder, 'logs'),
    log_stdout: false,
    ...options.config,
  };
  const file = join(folder, 'config.properties');
  await writeFile(
    file,
    Object.entries(config).map(([key, value]) => `${key}=${value}\n`),
  );
  const args = [program, 'start', '--foreground', '--ts-config', file, '--model-store', options.store, '--ncs'];
  const [command, ...rest] =
    options.openFiles === undefined
      ? [process.execPath, ...args]
      : ['/bin/sh', '-c', `ulimit -n ${options.openFiles} && exec "$@"`, 'sh', process.execPath, ...args];
  const child = spawn(command, rest, {
    cwd: folder,
    env: { ...process.env, TMPDIR: temp, ONNXSERVE_ANNOUNCE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => (text = (text + piece).slice(-200_000)));
  }
  const exit = new Promise<number | string | null>((resolve) =>
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve(signal ?? code);
    }),
  );
  const tail = () => text.slice(-3000);
  const line = new Promise<string>((resolve) => {
    child.stdout.on('data', () => {
      const found = text.split('\n').find((it) => it.startsWith('{"event":"ready"') && it.endsWith('}'));
      if (found !== undefined) resolve(found);
    });
  });
  const ended = exit.then((how) => {
    throw new Error(`the server ended with ${how} instead of listening:\n${tail()}`);
  });
  ended.catch(() => undefined);
  const addresses = JSON.parse(await Promise.race([line, ended])) as Pick<
    Instance,
    'inference' | 'management' | 'metrics' | 'grpcInference'
  > & { readonly failures?: readonly string[] };
  if ((addresses.failures?.length ?? 0) > 0) {
    child.kill('SIGKILL');
    throw new Error(`models could not be loaded: ${addresses.failures!.join('; ')}`);
  }
  const describe = async (model: string): Promise<Model> => {
    const response = await fetch(`${addresses.management}/models/${model}`);
    const body = await response.text();
    if (!response.ok) throw new Error(`describe ${model}: ${response.status} ${body}`);
    return (JSON.parse(body) as Model[])[0]!;
  };
  return {
    pid: child.pid!,
    inference: addresses.inference,
    management: addresses.management,
    metrics: addresses.metrics,
    grpcInference: addresses.grpcInference,
    temp,
    tail,
    describe,
    untilReady: (model, workers) =>
      until(async () => {
        const found = await describe(model);
        const ready = found.workers.filter(({ status }) => status === 'READY').length;
        return ready >= (workers ?? found.minWorkers) ? found : undefined;
      }, `${model} has its workers`),
    kill: (signal) => void child.kill(signal),
    exit,
    async stop() {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
      const how = await exit;
      clearTimeout(timer);
      return how;
    },
  };
}
