import { describe, expect, it } from 'vitest';
import { availableCpus } from './cpu.js';

function probe(files: Record<string, string>, cpus = 16) {
  return { readFile: (path: string) => files[path], parallelism: () => cpus };
}

describe('availableCpus', () => {
  it.each<[string, Record<string, string>, number]>([
    ['no control group', {}, 16],
    ['v2 without a limit', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000\n' }, 16],
    ['v2, rounded up', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '150000 100000\n' }, 2],
    ['v2, less than one', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '20000 100000\n' }, 1],
    ['v2, more than there are', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '9900000 100000\n' }, 16],
    [
      'v2, a parent that allows less',
      {
        '/proc/self/cgroup': '0::/a/b\n',
        '/sys/fs/cgroup/a/b/cpu.max': '800000 100000\n',
        '/sys/fs/cgroup/a/cpu.max': '300000 100000\n',
      },
      3,
    ],
    ['v2, a path that is not mounted', { '/proc/self/cgroup': '0::/x/y\n', '/sys/fs/cgroup/cpu.max': '400000 100000\n' }, 4],
    [
      'v1',
      {
        '/proc/self/cgroup': '5:memory:/d\n4:cpu,cpuacct:/d\n',
        '/sys/fs/cgroup/cpu/d/cpu.cfs_quota_us': '250000\n',
        '/sys/fs/cgroup/cpu/d/cpu.cfs_period_us': '100000\n',
      },
      3,
    ],
    [
      'v1 without a limit',
      {
        '/proc/self/cgroup': '4:cpu,cpuacct:/\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
      },
      16,
    ],
    [
      'v1 mounted under the names of its controllers',
      {
        '/proc/self/cgroup': '4:cpu,cpuacct:/d\n',
        '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '500000\n',
        '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000\n',
      },
      5,
    ],
    ['nonsense', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'what\n' }, 16],
  ])('%s', (_, files, expected) => expect(availableCpus(probe(files))).toBe(expected));

  it('works on this machine', () => expect(availableCpus()).toBeGreaterThanOrEqual(1));
});
