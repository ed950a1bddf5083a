import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable } from 'node:stream';

export interface ToolOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Characters of output that are read. */
  readonly maxOutput?: number;
}

/** `absent`: there is no such program here. `failed`: it could not be started, was too slow, or said too much. */
export type ToolOutcome =
  | { readonly state: 'ended'; readonly code: number | null; readonly stdout: string; readonly stderr: string }
  | { readonly state: 'absent' }
  | { readonly state: 'failed'; readonly why: string };

/** A process may leave others behind that hold its output; this long after its end they are not listened to any more. */
const CLOSE_GRACE_MS = 200;

/** Runs a program without a shell. Never throws, and never takes longer than its time: a program that is too slow is killed with all that it started. */
export function runTool(command: string, args: readonly string[], options: ToolOptions): Promise<ToolOutcome> {
  const { timeoutMs, signal, maxOutput = 1 << 20 } = options;
  return new Promise((resolve) => {
    let child: ChildProcessByStdio<null, Readable, Readable>;
    try {
      child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    } catch (error) {
      resolve({ state: 'failed', why: (error as Error).message });
      return;
    }
    let stdout = '';
    let stderr = '';
    let grace: NodeJS.Timeout | undefined;
    const settle = (outcome: ToolOutcome, kill: boolean) => {
      clearTimeout(timer);
      clearTimeout(grace);
      signal.removeEventListener('abort', aborted);
      if (kill) killGroup(child.pid);
      child.stdout.destroy();
      child.stderr.destroy();
      // Of a process that even SIGKILL does not end, as one in a driver's call, nothing is waited for.
      child.unref();
      resolve(outcome);
    };
    const aborted = () => settle({ state: 'failed', why: 'the server is stopping' }, true);
    const timer = setTimeout(
      () => settle({ state: 'failed', why: `it did not answer within ${timeoutMs / 1000} s` }, true),
      timeoutMs,
    );
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    const ended = (code: number | null, kill: boolean) => settle({ state: 'ended', code, stdout, stderr }, kill);
    const tooMuch = () => settle({ state: 'failed', why: `it printed more than ${maxOutput} characters` }, true);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.length > maxOutput) tooMuch();
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(0, 4096);
    });
    child.on('error', (error: NodeJS.ErrnoException) => {
      settle(error.code === 'ENOENT' ? { state: 'absent' } : { state: 'failed', why: error.message }, false);
    });
    child.on('exit', (code) => {
      grace = setTimeout(() => ended(code, true), CLOSE_GRACE_MS);
    });
    child.on('close', (code) => ended(code, false));
  });
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Gone already.
  }
}

export function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]!.slice(0, 200);
}
