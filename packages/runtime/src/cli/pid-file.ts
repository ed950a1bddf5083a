import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Where TorchServe keeps it, so that scripts find it. */
export function pidFile(): string {
  return join(process.env['TEMP'] ?? process.env['TMPDIR'] ?? tmpdir(), '.model_server.pid');
}

/** The server that the pid file names, if it is alive and a server of this kind. */
export function runningPid(file = pidFile()): number | undefined {
  let pid: number;
  try {
    pid = Number(readFileSync(file, 'utf8').trim());
  } catch {
    return undefined;
  }
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? pid : undefined;
  }
  try {
    // A pid is given again to somebody else after its process has ended.
    if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('onnxserve')) return undefined;
  } catch {
    // No /proc on this system: the signal alone has to do.
  }
  return pid;
}

export function writePid(pid: number, file = pidFile()): void {
  writeFileSync(file, `${pid}\n`);
}

/** Removes the file when it still names this process. */
export function removePid(pid: number, file = pidFile()): void {
  try {
    if (Number(readFileSync(file, 'utf8').trim()) === pid) rmSync(file, { force: true });
  } catch {
    // Gone already.
  }
}
