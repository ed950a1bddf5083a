import { execFile } from 'node:child_process';

export interface GpuReading {
  /** Index and, where several processes must agree on it, the UUID. */
  readonly id: string;
  /** Percent; undefined where the device does not say (MIG). */
  readonly utilization: number | undefined;
  /** Megabytes. */
  readonly memoryUsed: number | undefined;
  readonly memoryTotal: number | undefined;
}

/** `absent`: there is no such tool here. `failed`: there is one, and it does not work. */
export type GpuProbe =
  | { readonly state: 'read'; readonly gpus: readonly GpuReading[] }
  | { readonly state: 'absent' }
  | { readonly state: 'failed'; readonly why: string };

const TIMEOUT_MS = 5000;
const QUERY = ['--query-gpu=index,utilization.gpu,memory.used,memory.total', '--format=csv,noheader,nounits'];

/** Asks nvidia-smi once. Never throws and never takes longer than its timeout. */
export function probeGpus(signal: AbortSignal, command = 'nvidia-smi', timeout = TIMEOUT_MS): Promise<GpuProbe> {
  return new Promise((resolve) => {
    execFile(command, QUERY, { timeout, killSignal: 'SIGKILL', maxBuffer: 1 << 20, signal }, (error, stdout) => {
      if (error === null) return resolve(parseGpus(stdout));
      if (error.code === 'ENOENT') return resolve({ state: 'absent' });
      if (error.killed === true) return resolve({ state: 'failed', why: `it did not answer within ${timeout / 1000} s` });
      const detail = firstLine(stdout) || firstLine(error.message);
      resolve({ state: 'failed', why: typeof error.code === 'number' ? `it exited with ${error.code}: ${detail}` : detail });
    });
  });
}

export function parseGpus(output: string): GpuProbe {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const gpus: GpuReading[] = [];
  for (const line of lines) {
    const [id, utilization, used, total, ...rest] = line.split(',').map((field) => field.trim());
    if (id === undefined || !/^\d+$/.test(id) || total === undefined || rest.length > 0)
      return { state: 'failed', why: `its output is not understood: ${line.slice(0, 120)}` };
    gpus.push({ id, utilization: figure(utilization), memoryUsed: figure(used), memoryTotal: figure(total) });
  }
  return { state: 'read', gpus };
}

function figure(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]!.slice(0, 200);
}
