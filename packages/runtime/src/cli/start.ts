import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { LoadedConfig } from '../config/server-config.js';
import type { RunningServer } from '../server.js';
import { addConfigFlags, readConfig, reportProblems } from './config-flags.js';
import { Ending } from './ending.js';
import { runningPid, writePid } from './pid-file.js';
import { announce, Progress } from './progress.js';
import { ServiceNotify } from './service-notify.js';
import { ownVersion } from './version.js';

/** Tells the server that it was started by `--daemon`. */
const BACKGROUND = 'ONNXSERVE_BACKGROUND';

export function addStart(program: Command): void {
  addConfigFlags(program.command('start').description('start the server'))
    .option('--daemon', 'go to the background when every start-up model is ready')
    .action(async (options: { daemon?: boolean }, command: Command) => {
      const { loaded, snapshots } = readConfig(command);
      if (!reportProblems(loaded)) {
        process.exitCode = 1;
        return;
      }
      const other = runningPid();
      if (other !== undefined && process.env['ONNXSERVE_ANNOUNCE'] !== '1') {
        throw new Error(
          `a server is running already, process ${other}; stop it with: onnxserve stop, or set TMPDIR to another folder for a second one`,
        );
      }
      if (options.daemon === true) return await startInBackground();
      // Loaded here, so that `--help` and `check` do not pay for it.
      const { startServer } = await import('../server.js');
      const progress = new Progress();
      const notify = new ServiceNotify({ env: process.env, pid: process.pid, warn: (sentence) => console.error(sentence) });
      const ending = new Ending(notify);
      const server = await startServer({
        config: inBackground(loaded) ? { ...loaded.config, logToStdout: false } : loaded.config,
        version: ownVersion(),
        snapshotValues: snapshots ? loaded.snapshotValues : undefined,
        progress: (event) => progress.show(event),
        fatal: (reason) => ending.failed(reason),
      });
      writePid(process.pid);
      ending.watch(server);
      announce('listening', server.addresses);
      const failures = await server.loaded;
      progress.end(server.addresses, failures);
      announce('ready', { ...server.addresses, failures });
      notify.ready(statusOf(server, failures), () => server.readiness().live);
      process.send?.({ ready: failures.length === 0 });
      if (process.connected) process.disconnect();
    });
}

function statusOf(server: RunningServer, failures: readonly string[]): string {
  const count = server.models.models.length;
  return failures.length === 0
    ? `${count} model(s) loaded`
    : `not ready, ${failures.length} model(s) failed: ${failures[0]}`.replaceAll('\n', ' ');
}

/** Nobody rotates what a server in the background prints, so its log goes to the files alone unless it is asked for. */
function inBackground({ origins }: LoadedConfig): boolean {
  return process.env[BACKGROUND] === '1' && (origins.get('log_stdout')?.source ?? 'default') === 'default';
}

/** Starts the same command detached and returns when it is ready. */
async function startInBackground(): Promise<void> {
  // The foreground is said, since TorchServe's `--start` alone would go to the background again.
  const args = [...process.argv.slice(1).filter((arg) => arg !== '--daemon' && arg !== '--foreground'), '--foreground'];
  const log = openSync(join(process.cwd(), 'onnxserve.out'), 'a');
  const child = spawn(process.execPath, [...process.execArgv, ...args], {
    detached: true,
    env: { ...process.env, [BACKGROUND]: '1' },
    stdio: ['ignore', log, log, 'ipc'],
  });
  const ready = await new Promise<boolean>((resolve) => {
    child.once('message', (message) => resolve((message as { ready: boolean }).ready));
    child.once('exit', () => resolve(false));
  });
  child.unref();
  if (ready) console.log(`onnxserve is running, process ${child.pid}.`);
  else {
    console.error('onnxserve did not become ready; see onnxserve.out.');
    process.exitCode = 1;
  }
}
