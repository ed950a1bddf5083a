import { join, posix } from 'node:path';

/** Content of a file; rejects, or gives nothing, when it cannot be read. */
export type ReadText = (file: string) => Promise<string>;

const ROOT = '/sys/fs/cgroup';
/** Version 1 writes a number near 2^63 where there is no limit. */
const NO_LIMIT = 2 ** 60;

interface Group {
  readonly version: 1 | 2;
  /** From the process's own group to the root: a limit above binds too, and in a container the own path is often not mounted. */
  readonly folders: readonly string[];
}

/** What the tightest memory limit of the control groups leaves, in bytes; undefined where there is none. */
export async function containerMemory(read: ReadText): Promise<{ readonly used: number; readonly limit: number } | undefined> {
  let tightest: { used: number; limit: number } | undefined;
  for (const { version, folders } of await groups(read, 'memory')) {
    for (const folder of folders) {
      const limit = await number(read, join(folder, version === 2 ? 'memory.max' : 'memory.limit_in_bytes'));
      const all = await number(read, join(folder, version === 2 ? 'memory.current' : 'memory.usage_in_bytes'));
      if (limit === undefined || limit >= NO_LIMIT || all === undefined) continue;
      // File pages that nobody used lately are given back before anything is killed, so they are not in use.
      const cache = field(await text(read, join(folder, 'memory.stat')), version === 2 ? 'inactive_file' : 'total_inactive_file');
      const used = Math.max(0, all - (cache ?? 0));
      if (tightest === undefined || limit - used < tightest.limit - tightest.used) tightest = { used, limit };
    }
  }
  return tightest;
}

/** Processor time used so far under the tightest quota, in seconds, and the quota in processors; undefined where there is none. */
export async function containerCpu(read: ReadText): Promise<{ readonly used: number; readonly cpus: number } | undefined> {
  let tightest: { used: number; cpus: number } | undefined;
  for (const { version, folders } of await groups(read, 'cpu')) {
    for (const folder of folders) {
      const cpus = version === 2 ? await quotaV2(read, folder) : await quotaV1(read, folder);
      if (cpus === undefined || (tightest !== undefined && tightest.cpus <= cpus)) continue;
      const used = version === 2 ? await usageV2(read, folder) : await usageV1(read, folder);
      if (used !== undefined) tightest = { used, cpus };
    }
  }
  return tightest;
}

async function groups(read: ReadText, controller: 'memory' | 'cpu'): Promise<Group[]> {
  const found: Group[] = [];
  for (const line of ((await text(read, '/proc/self/cgroup')) || '0::/').split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    if (controllers === '') found.push({ version: 2, folders: upwards(ROOT, path) });
    else if (controllers.split(',').includes(controller))
      found.push({
        version: 1,
        folders: [
          ...upwards(join(ROOT, controller), path),
          ...(controllers === controller ? [] : upwards(join(ROOT, controllers), path)),
        ],
      });
  }
  return found;
}

function upwards(root: string, path: string): string[] {
  const folders: string[] = [];
  for (let at = posix.join('/', path); ; at = posix.dirname(at)) {
    folders.push(join(root, at));
    if (at === '/') return folders;
  }
}

async function quotaV2(read: ReadText, folder: string): Promise<number | undefined> {
  const [quota, period] = (await text(read, join(folder, 'cpu.max'))).trim().split(/\s+/);
  return share(Number(quota), Number(period ?? 100_000));
}

async function quotaV1(read: ReadText, folder: string): Promise<number | undefined> {
  const quota = await number(read, join(folder, 'cpu.cfs_quota_us'));
  const period = await number(read, join(folder, 'cpu.cfs_period_us'));
  return quota === undefined || period === undefined ? undefined : share(quota, period);
}

async function usageV2(read: ReadText, folder: string): Promise<number | undefined> {
  const microseconds = field(await text(read, join(folder, 'cpu.stat')), 'usage_usec');
  return microseconds === undefined ? undefined : microseconds / 1e6;
}

async function usageV1(read: ReadText, folder: string): Promise<number | undefined> {
  // The two controllers of version 1 may be mounted together or apart.
  const apart = folder.replace(/^\/sys\/fs\/cgroup\/cpu(?=\/|$)/, join(ROOT, 'cpuacct'));
  const nanoseconds = (await number(read, join(folder, 'cpuacct.usage'))) ?? (await number(read, join(apart, 'cpuacct.usage')));
  return nanoseconds === undefined ? undefined : nanoseconds / 1e9;
}

/** Undefined for `max`, -1 and whatever else is no limit. */
function share(quota: number, period: number): number | undefined {
  return quota > 0 && period > 0 ? quota / period : undefined;
}

async function number(read: ReadText, file: string): Promise<number | undefined> {
  const found = (await text(read, file)).trim();
  return /^\d+$/.test(found) ? Number(found) : undefined;
}

/** A line `key value` of a file of such lines. */
function field(content: string, key: string): number | undefined {
  const found = new RegExp(`^${key} (\\d+)$`, 'm').exec(content)?.[1];
  return found === undefined ? undefined : Number(found);
}

async function text(read: ReadText, file: string): Promise<string> {
  try {
    return await read(file);
  } catch {
    return '';
  }
}
