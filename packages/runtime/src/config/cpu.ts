import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, posix } from 'node:path';

export interface CpuProbe {
  /** Content of a file, undefined when it cannot be read. */
  readonly readFile: (path: string) => string | undefined;
  /** CPUs that the process may run on, without regard to quotas. */
  readonly parallelism: () => number;
}

const system: CpuProbe = {
  readFile: (path) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined;
    }
  },
  parallelism: availableParallelism,
};

/** CPUs this process can really use: affinity, cut by the quotas of its control groups (v1 and v2), rounded up, at least 1. */
export function availableCpus(probe: CpuProbe = system): number {
  const quotas = [...groupQuotas(probe)];
  return Math.max(1, Math.min(probe.parallelism(), ...quotas.map(Math.ceil)));
}

/** Quotas in CPUs of the process's group and of the groups above it. */
function* groupQuotas(probe: CpuProbe): Generator<number> {
  for (const line of (probe.readFile('/proc/self/cgroup') ?? '0::/').split('\n')) {
    const [, controllers, group] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || group === undefined) continue;
    if (controllers === '') yield* walk(group, (folder) => quotaV2(probe, join('/sys/fs/cgroup', folder)));
    else if (controllers.split(',').includes('cpu'))
      yield* walk(
        group,
        (folder) =>
          quotaV1(probe, join('/sys/fs/cgroup/cpu', folder)) ?? quotaV1(probe, join('/sys/fs/cgroup', controllers, folder)),
      );
  }
}

/** From the group to the root: a parent's quota binds too, and in a container the group's own path is often not mounted. */
function* walk(group: string, quotaOf: (folder: string) => number | undefined): Generator<number> {
  for (let folder = posix.join('/', group); ; folder = posix.dirname(folder)) {
    const quota = quotaOf(folder);
    if (quota !== undefined) yield quota;
    if (folder === '/') return;
  }
}

function quotaV2(probe: CpuProbe, folder: string): number | undefined {
  const [quota, period] = (probe.readFile(join(folder, 'cpu.max')) ?? '').trim().split(/\s+/);
  return divide(Number(quota), Number(period ?? 100_000));
}

function quotaV1(probe: CpuProbe, folder: string): number | undefined {
  const quota = probe.readFile(join(folder, 'cpu.cfs_quota_us'));
  const period = probe.readFile(join(folder, 'cpu.cfs_period_us'));
  return quota === undefined || period === undefined ? undefined : divide(Number(quota), Number(period));
}

/** Undefined for `max`, -1 and whatever else is no limit. */
function divide(quota: number, period: number): number | undefined {
  return quota > 0 && period > 0 ? quota / period : undefined;
}
