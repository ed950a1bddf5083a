import { statfs } from 'node:fs/promises';
import { containerCpu, containerMemory, type ReadText } from './container.js';

/** Figures of TorchServe's collector by family name. */
export interface HostFigures {
  CPUUtilization?: number;
  MemoryUsed?: number;
  MemoryAvailable?: number;
  MemoryUtilization?: number;
  DiskUsage?: number;
  DiskUtilization?: number;
  DiskAvailable?: number;
}

interface CpuReading {
  readonly busy: number;
  /** What could have been used so far. */
  readonly total: number;
}

/** Processor time in use between two readings: of the container's quota where there is one, of the host otherwise. */
export class CpuMeter {
  readonly #read: ReadText;
  readonly #now: () => number;
  #before: { readonly host: CpuReading; readonly container: CpuReading | undefined } | undefined;

  /** @param now seconds */
  constructor(read: ReadText, now: () => number = () => performance.now() / 1000) {
    this.#read = read;
    this.#now = now;
  }

  /** @returns percent; nothing at the first reading */
  async measure(): Promise<HostFigures> {
    const stat = await this.#read('/proc/stat');
    const limited = await containerCpu(this.#read);
    const host = cpuTimes(stat);
    const processors = stat.match(/^cpu\d/gm)?.length ?? Infinity;
    const binds = limited !== undefined && limited.cpus < processors;
    const container = binds ? { busy: limited.used, total: this.#now() * limited.cpus } : undefined;
    const before = this.#before;
    this.#before = { host, container };
    if (before === undefined) return {};
    const [from, to] = container && before.container ? [before.container, container] : [before.host, host];
    if (to.total <= from.total) return {};
    return { CPUUtilization: round1(Math.min(100, Math.max(0, (100 * (to.busy - from.busy)) / (to.total - from.total)))) };
  }
}

/** Memory in megabytes: of the container's limit where there is one, of the host otherwise. */
export async function memoryFigures(read: ReadText): Promise<HostFigures> {
  const info = await read('/proc/meminfo');
  const host = { total: memoryLine(info, 'MemTotal'), available: memoryLine(info, 'MemAvailable') };
  const container = await containerMemory(read);
  const megabyte = 2 ** 20;
  let { total, available } = host;
  let used = total - available;
  if (container !== undefined && container.limit / megabyte < host.total) {
    total = container.limit / megabyte;
    used = container.used / megabyte;
    available = Math.max(0, Math.min(total - used, host.available));
  }
  return { MemoryUsed: used, MemoryAvailable: available, MemoryUtilization: round1((100 * used) / total) };
}

/** The root file system, in gigabytes. */
export async function diskFigures(): Promise<HostFigures> {
  const { blocks, bfree, bavail, bsize } = await statfs('/');
  const gigabytes = (count: number) => (count * bsize) / 2 ** 30;
  const used = blocks - bfree;
  return {
    DiskUsage: gigabytes(used),
    DiskAvailable: gigabytes(bavail),
    DiskUtilization: used + bavail === 0 ? 0 : round1((100 * used) / (used + bavail)),
  };
}

function cpuTimes(stat: string): CpuReading {
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

export function round1(value: number): number {
  return Math.round(value * 10) / 10;
}
