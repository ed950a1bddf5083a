import { expect, it } from 'vitest';
import { containerCpu, containerMemory } from './container.js';
import { CpuMeter, memoryFigures } from './host-figures.js';

const GB = 2 ** 30;
type Files = Record<string, string>;
const reader = (files: Files) => async (file: string) => {
  const found = files[file];
  if (found === undefined) throw new Error(`no ${file}`);
  return found;
};
const meminfo = 'MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n';

it('finds no limit on a host without any', async () => {
  const files = {
    '/proc/self/cgroup': '0::/user.slice\n',
    '/sys/fs/cgroup/user.slice/memory.max': 'max\n',
    '/sys/fs/cgroup/user.slice/cpu.max': 'max 100000\n',
  };
  expect(await containerMemory(reader(files))).toBeUndefined();
  expect(await containerCpu(reader(files))).toBeUndefined();
  expect(await containerMemory(reader({}))).toBeUndefined();
});

it('takes the tightest limit on the way up, without the cache that can be given back (version 2)', async () => {
  const files = {
    '/proc/self/cgroup': '0::/pod/box\n',
    '/sys/fs/cgroup/pod/box/memory.max': 'max\n',
    '/sys/fs/cgroup/pod/memory.max': String(4 * GB),
    '/sys/fs/cgroup/pod/memory.current': String(3 * GB),
    '/sys/fs/cgroup/pod/memory.stat': `anon 1\ninactive_file ${GB}\nactive_file 5\n`,
    '/sys/fs/cgroup/pod/cpu.max': '150000 100000\n',
    '/sys/fs/cgroup/pod/cpu.stat': 'usage_usec 7500000\nuser_usec 1\n',
  };
  expect(await containerMemory(reader(files))).toEqual({ used: 2 * GB, limit: 4 * GB });
  expect(await containerCpu(reader(files))).toEqual({ used: 7.5, cpus: 1.5 });
});

it('reads version 1, and takes its huge number for no limit', async () => {
  const files: Files = {
    '/proc/self/cgroup': '4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n',
    '/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes': '9223372036854771712\n',
    '/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes': '5\n',
    '/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us': '50000\n',
    '/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us': '100000\n',
    '/sys/fs/cgroup/cpu,cpuacct/docker/a/cpuacct.usage': '2000000000\n',
  };
  expect(await containerMemory(reader(files))).toBeUndefined();
  expect(await containerCpu(reader(files))).toEqual({ used: 2, cpus: 0.5 });
  files['/sys/fs/cgroup/memory/memory.limit_in_bytes'] = String(GB);
  files['/sys/fs/cgroup/memory/memory.usage_in_bytes'] = String(GB / 2);
  files['/sys/fs/cgroup/memory/memory.stat'] = 'total_inactive_file 0\n';
  expect(await containerMemory(reader(files))).toEqual({ used: GB / 2, limit: GB });
  const apart = {
    '/proc/self/cgroup': '3:cpu:/a\n2:cpuacct:/a\n',
    '/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us': '50000\n',
    '/sys/fs/cgroup/cpu/a/cpu.cfs_period_us': '100000\n',
    '/sys/fs/cgroup/cpuacct/a/cpuacct.usage': '3000000000\n',
  };
  expect(await containerCpu(reader(apart))).toEqual({ used: 3, cpus: 0.5 });
});

it('gives memory of the limit, not of the host', async () => {
  const files: Files = {
    '/proc/meminfo': meminfo,
    '/sys/fs/cgroup/memory.max': String(2 * GB),
    '/sys/fs/cgroup/memory.current': String(1.5 * GB),
  };
  expect(await memoryFigures(reader(files))).toEqual({ MemoryUsed: 1536, MemoryAvailable: 512, MemoryUtilization: 75 });
  files['/sys/fs/cgroup/memory.max'] = String(64 * GB);
  expect(await memoryFigures(reader(files))).toEqual({ MemoryUsed: 8192, MemoryAvailable: 8192, MemoryUtilization: 50 });
});

it('measures processor time against the quota', async () => {
  let now = 100;
  const files: Files = {
    '/proc/stat': 'cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n',
    '/sys/fs/cgroup/cpu.max': '200000 100000\n',
    '/sys/fs/cgroup/cpu.stat': 'usage_usec 1000000\n',
  };
  const meter = new CpuMeter(reader(files), () => now);
  expect(await meter.measure()).toEqual({});
  now += 10;
  files['/sys/fs/cgroup/cpu.stat'] = 'usage_usec 16000000\n';
  expect(await meter.measure()).toEqual({ CPUUtilization: 75 });
  // A quota that is not below the number of processors does not bind.
  files['/sys/fs/cgroup/cpu.max'] = '400000 100000\n';
  files['/proc/stat'] = 'cpu  130 0 120 740 110 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n';
  expect(await meter.measure()).toEqual({ CPUUtilization: 50 });
});
