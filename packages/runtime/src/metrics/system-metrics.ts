import { existsSync } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { probeGpus, type GpuProbe } from './gpu-metrics.js';
import { CpuMeter, diskFigures, type HostFigures, memoryFigures, round1 } from './host-figures.js';
import type { MetricRegistry } from './registry.js';

export interface SystemMetricsOptions {
  readonly registry: MetricRegistry;
  readonly hostname: string;
  /** Seconds. */
  readonly interval: number;
  /** As configured; 0 says that no GPU is to be looked at. */
  readonly numberOfGpu: number | undefined;
  /** Folders whose file systems are watched, by the name of their setting. */
  readonly folders?: Readonly<Record<string, string>>;
  readonly warn: (sentence: string) => void;
  /** Called after each collection, for the metric log. */
  readonly collected?: (family: keyof SystemFigures, value: number, deviceId: string | undefined) => void;
  /** Collects what TorchServe's collector does, instead of this class. */
  readonly command?: (signal: AbortSignal) => Promise<void>;
  readonly probe?: (signal: AbortSignal) => Promise<GpuProbe>;
  readonly readText?: (file: string) => Promise<string>;
  /** Seconds. */
  readonly now?: () => number;
}

/** Figures of a host by family name. */
export interface SystemFigures extends HostFigures {
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
  readonly #cpu: CpuMeter;
  readonly #devices = new Set<string>();
  readonly #told = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #gpu: 'asking' | 'off';

  constructor(options: SystemMetricsOptions) {
    this.#options = options;
    this.#read = options.readText ?? ((file) => readFile(file, 'utf8'));
    this.#cpu = new CpuMeter(this.#read, options.now);
    this.#gpu = options.numberOfGpu === 0 ? 'off' : 'asking';
  }

  start(): void {
    void this.#loop(this.#options.command === undefined ? SECOND_READING_MS : this.#options.interval * 1000);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  /** Reads everything once. */
  async collect(): Promise<void> {
    const { command } = this.#options;
    const work =
      command === undefined
        ? [this.#take(this.#cpu.measure()), this.#take(memoryFigures(this.#read)), this.#take(diskFigures()), this.#collectGpus()]
        : [command(this.#abort.signal)];
    const outcomes = await Promise.allSettled([...work, this.#collectFolders()]);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    // Hosts without /proc simply have no such figures.
    if (failed?.status === 'rejected') this.#warnOnce('host', `System metrics are incomplete here: ${String(failed.reason)}`);
  }

  async #loop(next: number): Promise<void> {
    await this.collect();
    if (this.#abort.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#loop(this.#options.interval * 1000), next);
    this.#timer.unref();
  }

  async #take(figures: Promise<HostFigures>): Promise<void> {
    for (const [family, value] of Object.entries(await figures)) this.#set(family as keyof HostFigures, value as number);
  }

  /** Space where archives, unpacked models and logs lie: what fills up first is seldom the root. */
  async #collectFolders(): Promise<void> {
    const { diskSize, diskFree } = this.#options.registry.built;
    for (const [setting, folder] of Object.entries(this.#options.folders ?? {})) {
      try {
        const { blocks, bavail, bsize } = await statfs(folder);
        diskSize.series(setting).set(blocks * bsize);
        diskFree.series(setting).set(bavail * bsize);
      } catch {
        diskSize.remove(setting);
        diskFree.remove(setting);
      }
    }
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
          this.#warnOnce('gpu', 'There are no GPU metrics: nvidia-smi is not on the PATH.');
        break;
      case 'failed':
        this.#warnOnce('gpu', `There are no GPU metrics: nvidia-smi does not work here, ${probe.why}.`);
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

  #warnOnce(kind: string, sentence: string): void {
    if (this.#told.has(kind)) return;
    this.#told.add(kind);
    this.#options.warn(sentence);
  }
}
