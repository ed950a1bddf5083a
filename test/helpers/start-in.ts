import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../packages/runtime/bin/onnxserve.js', import.meta.url));

export interface StartedHere {
  readonly inference: string;
  readonly management: string;
  readonly metrics: string;
  readonly failures: readonly string[];
  output(): string;
  /** @returns the exit code, or the signal that ended it */
  end(signal?: NodeJS.Signals): Promise<number | string | null>;
}

/** Starts the real command in a folder, without anything that its arguments do not say, and waits until its models are loaded. */
export async function startIn(
  cwd: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<StartedHere> {
  const own = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^TS_|^LOG_LOCATION|^METRICS_LOCATION/.test(name)),
  );
  const child = spawn(process.execPath, [program, ...args], {
    cwd,
    env: { ...own, TMPDIR: cwd, ONNXSERVE_ANNOUNCE: '1', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const exit = once(child, 'close').then(([code, signal]) => (signal ?? code) as number | string | null);
  const ready = new Promise<string>((resolve) => {
    child.stdout.on('data', () => {
      const line = text.split('\n').find((it) => it.startsWith('{"event":"ready"') && it.endsWith('}'));
      if (line !== undefined) resolve(line);
    });
  });
  const ended = exit.then((code) => {
    throw new Error(`the server ended with ${code} instead of listening:\n${text}`);
  });
  const { inference, management, metrics, failures } = JSON.parse(await Promise.race([ready, ended])) as StartedHere;
  return {
    inference,
    management,
    metrics,
    failures,
    output: () => text,
    end(signal = 'SIGTERM') {
      child.kill(signal);
      return exit;
    },
  };
}
