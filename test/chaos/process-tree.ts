import { readdir, readFile } from 'node:fs/promises';

// All of this reads /proc: Linux alone.

/** Pids of the children of a process that are no zombies. */
export async function childrenOf(pid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const parents = await Promise.all(
    pids.map(async (candidate) => {
      try {
        const text = await readFile(`/proc/${candidate}/stat`, 'utf8');
        const [state, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ');
        return state !== 'Z' && Number(parent) === pid;
      } catch {
        return false; // has ended meanwhile
      }
    }),
  );
  return pids.filter((_, at) => parents[at]);
}

/** The process and all below it. */
export async function treeOf(pid: number): Promise<number[]> {
  const children = await childrenOf(pid);
  return [pid, ...(await Promise.all(children.map(treeOf))).flat()];
}

export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export async function descriptorsOf(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/** Bytes of memory, with shared pages counted in proportion. */
export async function memoryOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1]) * 1024;
}
