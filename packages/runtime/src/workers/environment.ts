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
    // Without these glibc keeps what sessions and images give back.
    MALLOC_ARENA_MAX: '2',
    MALLOC_TRIM_THRESHOLD_: '131072',
    TOKENIZERS_PARALLELISM: 'false',
    // The engine's own would leave files in the temp directory and name a host outside.
    ORT_DISABLE_TELEMETRY: '1',
    ...env,
  };
}
