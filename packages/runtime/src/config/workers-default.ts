import type { ServerConfig } from './server-config.js';

/** Workers of a start-up model that names none: as configured, else one per GPU, else one per CPU; never above the limit. */
export function resolveWorkersDefault(
  config: Pick<ServerConfig, 'defaultWorkersPerModel' | 'maxWorkersLimit' | 'numberOfGpu'>,
  cpuCount: number,
  gpuCount = 0,
): number {
  const gpus = Math.min(gpuCount, config.numberOfGpu ?? gpuCount);
  const wanted = config.defaultWorkersPerModel || gpus || cpuCount;
  return Math.max(1, Math.min(wanted, config.maxWorkersLimit));
}
