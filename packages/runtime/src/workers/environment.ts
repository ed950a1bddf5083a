import type { ServerConfig } from '../config/server-config.js';
import { secretVariables } from '../config/token-config.js';
import { type ThreadShare, threadVariables } from '../config/threads.js';

/** The server's environment without what `blacklist_env_vars` hides. */
export function visibleEnvironment(own: NodeJS.ProcessEnv, config: Pick<ServerConfig, 'blacklistEnvVars'>): NodeJS.ProcessEnv {
  const hidden =
    config.blacklistEnvVars === undefined || config.blacklistEnvVars === ''
      ? undefined
      : new RegExp(`^(?:${config.blacklistEnvVars})$`);
  return Object.fromEntries(
    Object.entries(own).filter(([name]) => !secretVariables.test(name) && (hidden === undefined || !hidden.test(name))),
  );
}

/**
 * The environment of a worker process, with limits for threads and allocators. A variable of the operator's wins, unless the model
 * itself says how many threads it wants.
 * @param visible what the worker may see of the server's
 */
export function workerEnvironment(visible: NodeJS.ProcessEnv, { threads, from }: ThreadShare): NodeJS.ProcessEnv {
  const count = String(threads);
  const numeric = Object.fromEntries(threadVariables.map((name) => [name, count]));
  const limits: Record<string, string> = {
    ...numeric,
    // Pictures and tokenizers: what libvips and Rust's thread pool would take from the number of cores.
    VIPS_CONCURRENCY: count,
    RAYON_NUM_THREADS: count,
    // Few arenas, and memory given back in large pieces only: tensors and pictures of a few megabytes come and go with every request,
    // and mapping them anew each time costs more than decoding. What a model takes goes when its process ends.
    MALLOC_ARENA_MAX: '2',
    MALLOC_MMAP_THRESHOLD_: String(4 * 1024 * 1024),
    MALLOC_TRIM_THRESHOLD_: String(64 * 1024 * 1024),
    TOKENIZERS_PARALLELISM: 'false',
    // The engine's own would leave files in the temp directory and name a host outside.
    ORT_DISABLE_TELEMETRY: '1',
  };
  // An empty variable says nothing.
  const own = Object.entries(visible).filter(([name, value]) => value !== '' || !Object.hasOwn(limits, name));
  return { ...limits, ...Object.fromEntries(own), ...(from === 'intraOpNumThreads' ? numeric : {}) };
}

/**
 * Where a worker has no core of its own to spare, garbage collection on helper threads only takes time from inference. The heaps of
 * handlers are small, and what pauses is the handler's thread, never the front and never a run.
 * @param threads cores that a worker has
 */
export function workerNodeFlags(threads: number): string[] {
  return threads > 1 ? [] : ['--single-threaded-gc', '--no-incremental-marking'];
}
