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
  // In a container that starts again, pids come in the same order as before: the number of the server that was killed is now this one's.
  if (pid === process.pid || pid === process.ppid) return undefined;
  return isServer(pid) ? pid : undefined;
}

/** Whether a process is there and a server of this kind: a pid is given again to somebody else after its process has ended. */
export function isServer(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  try {
    // Of a process that has ended, but whose parent has not noticed, the command line is empty.
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return args.some((arg) => arg.includes('onnxserve')) && args.some((arg) => arg === 'start' || arg === '--start');
  } catch {
    // No /proc on this system: the signal alone has to do.
    return true;
  }
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
