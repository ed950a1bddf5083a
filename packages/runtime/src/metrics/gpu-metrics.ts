import { firstLine, runTool } from './run-tool.js';

export interface GpuReading {
  /** Index. */
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
export async function probeGpus(signal: AbortSignal, command = 'nvidia-smi', timeoutMs = TIMEOUT_MS): Promise<GpuProbe> {
  const outcome = await runTool(command, QUERY, { timeoutMs, signal });
  switch (outcome.state) {
    case 'absent':
    case 'failed':
      return outcome;
    case 'ended': {
      const { code, stdout, stderr } = outcome;
      if (code === 0) return parseGpus(stdout);
      const how = code === null ? 'it was killed' : `it exited with ${code}`;
      const detail = firstLine(stdout) || firstLine(stderr);
      return { state: 'failed', why: detail === '' ? how : `${how}: ${detail}` };
    }
    default: {
      const never: never = outcome;
      throw new TypeError(`unknown outcome ${String(never)}`);
    }
  }
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
