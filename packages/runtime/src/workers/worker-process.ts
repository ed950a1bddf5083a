import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Connection } from '../ipc/connection.js';
import type { FromWorker, ToWorker } from '../ipc/messages.js';
import { LineSplitter } from './lines.js';

export interface ProcessListener {
  message(message: FromWorker, blob: Buffer): void;
  /** After the last message; once. */
  exit(code: number | null, signal: NodeJS.Signals | null): void;
  line(stream: 'stdout' | 'stderr', line: string): void;
}

/** A running worker process. */
export interface WorkerProcess {
  readonly pid: number | undefined;
  send(message: ToWorker, blobs?: readonly Uint8Array[]): void;
  kill(signal: NodeJS.Signals): void;
}

export interface SpawnOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Flags of the Node process. */
  readonly nodeFlags?: readonly string[];
}

export type SpawnWorker = (options: SpawnOptions, listener: ProcessListener) => WorkerProcess;

/** After a process is gone, how long its descriptors may stay open elsewhere (a grandchild) before its last messages are given up. */
const CLOSE_GRACE_MS = 200;

export const spawnWorker: SpawnWorker = (options, listener) => {
  const entry = fileURLToPath(new URL('../worker/entry.js', import.meta.url));
  let exited: { code: number | null; signal: NodeJS.Signals | null } | undefined;
  let closed = false;
  let told = false;
  const stdout = new LineSplitter((line) => listener.line('stdout', line));
  const stderr = new LineSplitter((line) => listener.line('stderr', line));
  const tell = () => {
    if (told || exited === undefined) return;
    told = true;
    stdout.end();
    stderr.end();
    listener.exit(exited.code, exited.signal);
  };
  const notStarted = (error: Error) => {
    listener.line('stderr', `the worker process could not be started: ${error.message}`);
    exited ??= { code: -1, signal: null };
    tell();
  };
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, ['--enable-source-maps', ...(options.nodeFlags ?? []), entry], {
      env: options.env,
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
  } catch (error) {
    setImmediate(() => notStarted(error instanceof Error ? error : new Error(String(error))));
    return { pid: undefined, send: () => undefined, kill: () => undefined };
  }
  child.on('error', notStarted);
  // Without descriptors to spare there are no pipes, and the error comes later.
  const socket = (child.stdio as ChildProcess['stdio'] | undefined)?.[3] as Socket | undefined;
  if (socket === undefined) return { pid: undefined, send: () => undefined, kill: () => undefined };
  const connection = new Connection(
    socket,
    ({ meta, blob }) => listener.message(meta as FromWorker, blob),
    (error) => {
      closed = true;
      if (exited !== undefined) return tell();
      // A process that cannot be talked to any more is of no use, whatever it goes on doing.
      setTimeout(() => {
        if (exited !== undefined) return;
        listener.line('stderr', `the connection to the worker was lost${error === undefined ? '' : `: ${error.message}`}`);
        child.kill('SIGKILL');
      }, CLOSE_GRACE_MS);
    },
  );
  child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.on('exit', (code, signal) => {
    exited ??= { code, signal };
    if (closed) setImmediate(tell);
    else setTimeout(tell, CLOSE_GRACE_MS);
  });
  return {
    pid: child.pid,
    send: (message, blobs) => connection.send(message, blobs),
    kill: (signal) => void child.kill(signal),
  };
};
