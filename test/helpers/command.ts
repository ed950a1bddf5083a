import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../packages/runtime/bin/onnxserve.js', import.meta.url));

/** Runs the real command until it ends. `environment` adds to this process's own, without its TS_ variables. */
export async function runCommand(
  args: readonly string[],
  cwd: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TS_')));
  const child = spawn(process.execPath, [program, ...args], { cwd, env: { ...own, ...environment } });
  const text = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (piece: string) => (text[stream] += piece));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, ...text };
}
