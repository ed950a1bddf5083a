import type { ServerConfig } from '../config/server-config.js';

/** The environment of a worker process: the server's, without what `blacklist_env_vars` hides, with thread and allocator limits. */
export function workerEnvironment(
  own: NodeJS.ProcessEnv,
  config: Pick<ServerConfig, 'blacklistEnvVars'>,
  threads: number,
): NodeJS.ProcessEnv {
  const hidden =
    config.blacklistEnvVars === undefined || config.blacklistEnvVars === ''
      ? undefined
      : new RegExp(`^(?:${config.blacklistEnvVars})$`);
  const env = Object.fromEntries(Object.entries(own).filter(([name]) => hidden === undefined || !hidden.test(name)));
  return {
    OMP_NUM_THREADS: String(threads),
    // Few arenas, and memory given back in large pieces only: tensors and pictures of a few megabytes come and go with every request,
    // and mapping them anew each time costs more than decoding. What a model takes goes when its process ends.
    MALLOC_ARENA_MAX: '2',
    MALLOC_MMAP_THRESHOLD_: String(4 * 1024 * 1024),
    MALLOC_TRIM_THRESHOLD_: String(64 * 1024 * 1024),
    TOKENIZERS_PARALLELISM: 'false',
    // The engine's own would leave files in the temp directory and name a host outside.
    ORT_DISABLE_TELEMETRY: '1',
    ...env,
  };
}

/**
 * Where a worker has no core of its own to spare, garbage collection on helper threads only takes time from inference. The heaps of
 * handlers are small, and what pauses is the handler's thread, never the front and never a run.
 * @param threads cores that a worker has
 */
export function workerNodeFlags(threads: number): string[] {
  return threads > 1 ? [] : ['--single-threaded-gc', '--no-incremental-marking'];
}
