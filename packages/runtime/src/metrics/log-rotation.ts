import { readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/**
 * Moves `name.log` aside as `name.DAY.N.log` and deletes the oldest of those that are more than `keep`.
 * @param day `2024-05-01`, of the lines in the file
 */
export async function rotate(file: string, day: string, keep: number): Promise<void> {
  const folder = dirname(file);
  const stem = basename(file, '.log');
  const prefix = `${stem}.${day}.`;
  const old = (await readdir(folder)).filter((name) => name.startsWith(`${stem}.`) && /\.\d{4}-\d\d-\d\d\.\d+\.log$/.test(name));
  const taken = old.filter((name) => name.startsWith(prefix)).map((name) => Number(name.slice(prefix.length, -'.log'.length)));
  const aside = `${prefix}${Math.max(0, ...taken) + 1}.log`;
  await rename(file, join(folder, aside));
  const all = [...old, aside].sort(byAge);
  for (const name of all.slice(0, Math.max(0, all.length - keep))) await rm(join(folder, name), { force: true });
}

/** `name.2024-05-01.2.log` before `name.2024-05-01.10.log` before the next day's. */
function byAge(a: string, b: string): number {
  const parts = (name: string) => /\.(\d{4}-\d\d-\d\d)\.(\d+)\.log$/.exec(name)!;
  const [, dayA = '', countA] = parts(a);
  const [, dayB = '', countB] = parts(b);
  return dayA === dayB ? Number(countA) - Number(countB) : dayA < dayB ? -1 : 1;
}
