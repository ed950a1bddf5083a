import { existsSync } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { probeGpus, type GpuProbe } from './gpu-metrics.js';
import type { MetricRegistry } from './registry.js';

export interface SystemMetricsOptions {
  readonly registry: MetricRegistry;
  readonly hostname: string;
  /** Seconds. */
  readonly interval: number;
  /** As configured; 0 says that no GPU is to be looked at. */
  readonly numberOfGpu: number | undefined;
  readonly warn: (sentence: string) => void;
  /** Called after each collection, for the metric log. */
  readonly collected?: (family: keyof SystemFigures, value: number, deviceId: string | undefined) => void;
  readonly probe?: (signal: AbortSignal) => Promise<GpuProbe>;
  readonly readText?: (file: string) => Promise<string>;
}

/** Figures of a host by family name. */
export interface SystemFigures {
  CPUUtilization?: number;
  MemoryUsed?: number;
  MemoryAvailable?: number;
  MemoryUtilization?: number;
  DiskUsage?: number;
  DiskUtilization?: number;
  DiskAvailable?: number;
  GPUUtilization?: number;
  GPUMemoryUsed?: number;
  GPUMemoryUtilization?: number;
}

/** CPU time needs two readings; the second follows the first soon, so that the first scrape has a value. */
const SECOND_READING_MS = 500;

/** Collects what TorchServe's collector reports, without a process of its own. */
export class SystemMetrics {
  readonly #options: SystemMetricsOptions;
  readonly #abort = new AbortController();
  readonly #read: (file: string) => Promise<string>;
  readonly #devices = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #cpu: { readonly busy: number; readonly total: number } | undefined;
  #gpu: 'asking' | 'off';
  #warned = false;

  constructor(options: SystemMetricsOptions) {
    this.#options = options;
    this.#read = options.readText ?? ((file) => readFile(file, 'utf8'));
    this.#gpu = options.numberOfGpu === 0 ? 'off' : 'asking';
  }

  start(): void {
    void this.#loop(SECOND_READING_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  /** Reads everything once. */
  async collect(): Promise<void> {
    const outcomes = await Promise.allSettled([
      this.#collectCpu(),
      this.#collectMemory(),
      this.#collectDisk(),
      this.#collectGpus(),
    ]);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    // Hosts without /proc simply have no such figures.
    if (failed?.status === 'rejected') this.#warnOnce(`System metrics are incomplete here: ${String(failed.reason)}`);
  }

  async #loop(next: number): Promise<void> {
    await this.collect();
    if (this.#abort.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#loop(this.#options.interval * 1000), next);
    this.#timer.unref();
  }

  async #collectCpu(): Promise<void> {
    const now = cpuTimes(await this.#read('/proc/stat'));
    const before = this.#cpu;
    this.#cpu = now;
    if (before === undefined || now.total <= before.total) return;
    this.#set('CPUUtilization', round1((100 * (now.busy - before.busy)) / (now.total - before.total)));
  }

  async #collectMemory(): Promise<void> {
    const info = await this.#read('/proc/meminfo');
    const total = memoryLine(info, 'MemTotal');
    const available = memoryLine(info, 'MemAvailable');
    this.#set('MemoryUsed', total - available);
    this.#set('MemoryAvailable', available);
    this.#set('MemoryUtilization', round1((100 * (total - available)) / total));
  }

  async #collectDisk(): Promise<void> {
    const { blocks, bfree, bavail, bsize } = await statfs('/');
    const gigabytes = (count: number) => (count * bsize) / 2 ** 30;
    const used = blocks - bfree;
    this.#set('DiskUsage', gigabytes(used));
    this.#set('DiskAvailable', gigabytes(bavail));
    this.#set('DiskUtilization', used + bavail === 0 ? 0 : round1((100 * used) / (used + bavail)));
  }

  async #collectGpus(): Promise<void> {
    if (this.#gpu === 'off') return;
    const probe = await (this.#options.probe ?? probeGpus)(this.#abort.signal);
    if (this.#abort.signal.aborted) return;
    const seen = new Set<string>();
    switch (probe.state) {
      case 'read':
        for (const gpu of probe.gpus) {
          seen.add(gpu.id);
          this.#set('GPUUtilization', gpu.utilization, gpu.id);
          this.#set('GPUMemoryUsed', gpu.memoryUsed, gpu.id);
          const { memoryUsed: used, memoryTotal: total } = gpu;
          const known = used !== undefined && total !== undefined && total > 0;
          this.#set('GPUMemoryUtilization', known ? round1((100 * used) / total) : undefined, gpu.id);
        }
        break;
      case 'absent':
        this.#gpu = 'off';
        if ((this.#options.numberOfGpu ?? 0) > 0 || existsSync('/dev/nvidiactl'))
          this.#warnOnce('There are no GPU metrics: nvidia-smi is not on the PATH.');
        break;
      case 'failed':
        this.#warnOnce(`There are no GPU metrics: nvidia-smi does not work here, ${probe.why}.`);
        break;
      default: {
        const never: never = probe;
        throw new TypeError(`unknown probe ${String(never)}`);
      }
    }
    // Of a device that stopped answering, no value is better than an old one.
    for (const id of this.#devices) if (!seen.has(id)) this.#forgetDevice(id);
    for (const id of seen) this.#devices.add(id);
  }

  #forgetDevice(id: string): void {
    this.#devices.delete(id);
    for (const family of ['GPUUtilization', 'GPUMemoryUsed', 'GPUMemoryUtilization'] as const) this.#set(family, undefined, id);
  }

  #set(family: keyof SystemFigures, value: number | undefined, deviceId?: string): void {
    const { registry, hostname, collected } = this.#options;
    const labels = deviceId === undefined ? ['Host', hostname] : ['Host', deviceId, hostname];
    if (value === undefined) {
      registry.built[family].remove(...labels);
      return;
    }
    registry.built[family].series(...labels).set(value);
    collected?.(family, value, deviceId);
  }

  #warnOnce(sentence: string): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#options.warn(sentence);
  }
}

function cpuTimes(stat: string): { busy: number; total: number } {
  const fields = /^cpu +(.+)$/m.exec(stat)?.[1]?.split(' ').map(Number);
  if (fields === undefined) throw new Error('/proc/stat has no cpu line');
  // user nice system idle iowait irq softirq steal; guest times are part of user already.
  const total = fields.slice(0, 8).reduce((sum, it) => sum + it, 0);
  return { busy: total - (fields[3] ?? 0) - (fields[4] ?? 0), total };
}

/** Megabytes. */
function memoryLine(info: string, key: string): number {
  const found = new RegExp(`^${key}: +(\\d+) kB`, 'm').exec(info)?.[1];
  if (found === undefined) throw new Error(`/proc/meminfo has no ${key}`);
  return Number(found) / 1024;
}

function round1(value: number): number {
  return Math.round(value * 10) / 10;
}
