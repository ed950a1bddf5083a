import type { Command } from 'commander';
import { isServer, removePid, runningPid } from './pid-file.js';

const POLL_MS = 50;

export function addStop(program: Command): void {
  program
    .command('stop')
    .description('stop the server that was started here: accepted requests finish first')
    .option('--timeout <seconds>', 'how long to wait for it', '60')
    .option('--foreground', 'accepted for compatibility')
    .action(async ({ timeout }: { timeout: string }) => {
      if (!(Number(timeout) >= 0)) throw new Error(`--timeout is "${timeout}"; it must be a number of seconds`);
      const pid = runningPid();
      if (pid === undefined) {
        console.log('onnxserve is not currently running.');
        return;
      }
      process.kill(pid, 'SIGTERM');
      const until = Date.now() + Number(timeout) * 1000;
      while (Date.now() < until) {
        if (!isServer(pid)) {
          removePid(pid);
          console.log('onnxserve has stopped.');
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      throw new Error(`process ${pid} did not stop within ${timeout} s`);
    });
}

export function addStatus(program: Command): void {
  program
    .command('status')
    .description('say whether a server that was started here is running; exit code 0 when it is')
    .action(() => {
      const pid = runningPid();
      console.log(pid === undefined ? 'onnxserve is not currently running.' : `onnxserve is running, process ${pid}.`);
      if (pid === undefined) process.exitCode = 1;
    });
}
