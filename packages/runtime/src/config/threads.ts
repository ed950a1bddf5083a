/** Variables that say how many threads a numeric library may use, in the order in which they are asked. */
export const threadVariables = ['OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'] as const;

export type ThreadsOrigin = 'intraOpNumThreads' | (typeof threadVariables)[number] | 'cores divided by workers';

export interface ThreadShare {
  /** Threads of one run, at least 1. */
  readonly threads: number;
  readonly from: ThreadsOrigin;
}

export interface ThreadInputs {
  /** `intraOpNumThreads` of the model; 0: one per core. */
  readonly configured: number | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly cpus: number;
  /** Workers of the model. */
  readonly workers: number;
}

/** Threads of one run of a worker: the model's own setting, else the environment's, else its share of the cores. */
export function threadShare({ configured, environment, cpus, workers }: ThreadInputs): ThreadShare {
  if (configured !== undefined) return { threads: configured === 0 ? cpus : configured, from: 'intraOpNumThreads' };
  for (const name of threadVariables) {
    const threads = readThreads(environment[name]);
    if (threads !== undefined) return { threads, from: name };
  }
  return { threads: Math.max(1, Math.floor(cpus / Math.max(1, workers))), from: 'cores divided by workers' };
}

/** A positive number; of a list for nested levels, as OpenMP takes it, the first. Undefined for anything else. */
function readThreads(text: string | undefined): number | undefined {
  const found = /^\s*(\d{1,4})\s*(?:,|$)/.exec(text ?? '')?.[1];
  const threads = Number(found ?? 0);
  return threads >= 1 && threads <= 1024 ? threads : undefined;
}

/** What an operator should know about these threads; undefined when they fit. */
export function threadWarning({ threads, from }: ThreadShare, { workers, cpus }: ThreadInputs): string | undefined {
  if (workers * threads <= cpus || workers < 1) return undefined;
  const cores = cpus === 1 ? '1 core' : `${cpus} cores`;
  const each = threads === 1 ? '1 thread' : `${threads} threads`;
  const many = workers === 1 ? '1 worker' : `${workers} workers`;
  const why = from === 'cores divided by workers' ? '' : ` (${from})`;
  const fits = Math.floor(cpus / workers);
  const instead =
    fits >= 1
      ? `${from === 'intraOpNumThreads' ? 'set intraOpNumThreads to' : `set ${from} to`} ${fits}, or leave it out`
      : `lower minWorkers to ${cpus}`;
  return `${many} with ${each} each${why} share ${cores} and slow each other down: ${instead}.`;
}

/** A thread setting of the environment that says nothing; undefined when there is none. */
export function unreadableThreads(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  for (const name of threadVariables) {
    const text = environment[name];
    if (text !== undefined && text.trim() !== '' && readThreads(text) === undefined)
      return `${name}=${text.slice(0, 40)} is no number of threads from 1 to 1024 and is ignored.`;
  }
  return undefined;
}
