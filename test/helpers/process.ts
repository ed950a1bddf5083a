import { readdir, readFile } from 'node:fs/promises';

/** These read /proc, so they work on Linux alone. */
async function statusField(pid: number, field: string): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8');
  const found = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text);
  if (found === null) throw new Error(`process ${pid} has no ${field}`);
  return Number(found[1]);
}

export const parentOf = (pid: number) => statusField(pid, 'PPid');
/** The most memory it ever had, in bytes. */
export const peakMemory = async (pid: number) => (await statusField(pid, 'VmHWM')) * 1024;
/** Memory it has now, in bytes. */
export const memoryOf = async (pid: number) => (await statusField(pid, 'VmRSS')) * 1024;
export const threadsOf = async (pid: number) => (await readdir(`/proc/${pid}/task`)).length;
