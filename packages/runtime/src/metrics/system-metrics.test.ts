import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { probeGpus } from './gpu-metrics.js';
import { MetricRegistry } from './registry.js';
import { SystemMetrics } from './system-metrics.js';

let folder: string;
let warnings: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'system-'));
  warnings = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A stand-in for nvidia-smi that runs this shell script. */
function tool(script: string): string {
  const file = join(folder, 'nvidia-smi');
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

function system(command: string, registry: MetricRegistry, proc: Record<string, string> = {}): SystemMetrics {
  return new SystemMetrics({
    registry,
    hostname: 'box',
    interval: 60,
    numberOfGpu: 1,
    warn: (sentence) => warnings.push(sentence),
    probe: (signal) => probeGpus(signal, command, 200),
    ...(Object.keys(proc).length === 0 ? {} : { readText: async (file) => proc[file] ?? '' }),
  });
}
const shown = (registry: MetricRegistry, family: 'GPUUtilization' | 'GPUMemoryUsed' | 'GPUMemoryUtilization') =>
  [...registry.built[family].samples].map(({ labels, value }) => [labels, value]);

describe('GPU metrics', () => {
  it.each([
    ['missing', 'exit 0', true],
    ['garbage', 'echo NVIDIA-SMI has failed', false],
    ['exit 9', 'echo no devices were found; exit 9', false],
    ['hanging', 'exec sleep 60', false],
    ['hanging in a process of its own', 'sleep 60; echo never', false],
    ['ended, with a process that holds its output', 'sleep 60 & echo garbage', false],
    ['flooding', 'yes', false],
  ])('%s: one warning, no gauges, nothing thrown', async (_name, script, missing) => {
    const registry = new MetricRegistry();
    const it = system(missing ? join(folder, 'none') : tool(script), registry);
    for (let round = 0; round < 3; round++) await it.collect();
    it.close();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('nvidia-smi');
    expect(warnings[0]).not.toContain('\n');
    for (const family of ['GPUUtilization', 'GPUMemoryUsed', 'GPUMemoryUtilization'] as const)
      expect(shown(registry, family)).toEqual([]);
  });

  it('reads devices, and leaves out what a partitioned one does not say', async () => {
    const registry = new MetricRegistry();
    const it = system(tool('printf "0, 37, 1024, 4096\\n1, [N/A], 512, 2048\\n"'), registry);
    await it.collect();
    it.close();
    expect(warnings).toEqual([]);
    expect(shown(registry, 'GPUUtilization')).toEqual([['Level="Host",DeviceId="0",Hostname="box"', 37]]);
    expect(shown(registry, 'GPUMemoryUtilization')).toEqual([
      ['Level="Host",DeviceId="0",Hostname="box"', 25],
      ['Level="Host",DeviceId="1",Hostname="box"', 25],
    ]);
  });
});

describe('host metrics', () => {
  it('takes processor time between two readings, and memory in megabytes', async () => {
    const registry = new MetricRegistry();
    const proc = {
      '/proc/stat': 'cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n',
      '/proc/meminfo': 'MemTotal:       8388608 kB\nMemFree:  1 kB\nMemAvailable:   6291456 kB\n',
    };
    const it = system(join(folder, 'none'), registry, proc);
    await it.collect();
    expect(registry.built.CPUUtilization.size).toBe(0);
    proc['/proc/stat'] = 'cpu  130 0 120 740 110 0 0 0 0 0\n';
    await it.collect();
    it.close();
    const value = (family: 'CPUUtilization' | 'MemoryUsed' | 'MemoryAvailable' | 'MemoryUtilization') =>
      [...registry.built[family].samples][0]?.value;
    expect(value('CPUUtilization')).toBe(50);
    expect(value('MemoryUsed')).toBe(2048);
    expect(value('MemoryAvailable')).toBe(6144);
    expect(value('MemoryUtilization')).toBe(25);
    expect([...registry.built.DiskUsage.samples][0]?.value).toBeGreaterThan(0);
  });

  it('tells the space of the folders that matter, and nothing of one that is gone', async () => {
    const registry = new MetricRegistry();
    const options = {
      registry,
      hostname: 'box',
      interval: 60,
      numberOfGpu: 0,
      warn: (sentence: string) => warnings.push(sentence),
    };
    const it = new SystemMetrics({ ...options, folders: { model_store: folder, log_location: join(folder, 'none') } });
    await it.collect();
    it.close();
    const sizes = [...registry.built.diskSize.samples];
    expect(sizes.map(({ labels }) => labels)).toEqual(['folder="model_store"']);
    const [free] = [...registry.built.diskFree.samples];
    expect(free?.value).toBeGreaterThan(0);
    expect(free?.value).toBeLessThanOrEqual(sizes[0]?.value ?? 0);
    expect(warnings).toEqual([]);
  });
});
