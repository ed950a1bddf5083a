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
}

export type SpawnWorker = (options: SpawnOptions, listener: ProcessListener) => WorkerProcess;

/** After a process is gone, how long its descriptors may stay open elsewhere (a grandchild) before its last messages are given up. */
const CLOSE_GRACE_MS = 200;

export const spawnWorker: SpawnWorker = (options, listener) => {
  const entry = fileURLToPath(new URL('../worker/entry.js', import.meta.url));
  const child: ChildProcess = spawn(process.execPath, ['--enable-source-maps', entry], {
    env: options.env,
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const socket = child.stdio[3] as Socket;
  let exited: { code: number | null; signal: NodeJS.Signals | null } | undefined;
  let closed = false;
  let told = false;
  const tell = () => {
    if (told || exited === undefined) return;
    told = true;
    stdout.end();
    stderr.end();
    listener.exit(exited.code, exited.signal);
  };
  const connection = new Connection(
    socket,
    ({ meta, blob }) => listener.message(meta as FromWorker, blob),
    () => {
      closed = true;
      if (exited !== undefined) tell();
    },
  );
  const stdout = new LineSplitter((line) => listener.line('stdout', line));
  const stderr = new LineSplitter((line) => listener.line('stderr', line));
  child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.on('error', (error) => {
    listener.line('stderr', `the worker process could not be started: ${error.message}`);
    exited ??= { code: -1, signal: null };
    tell();
  });
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
