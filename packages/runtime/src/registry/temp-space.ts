import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { ServeError } from '../domain/errors.js';

const prefix = 'onnxserve-models-';
const marker = 'owner.json';
const lock = 'lock';
// A socket's path may be little longer than a hundred bytes.
const longestSocketPath = 100;

interface Owner {
  readonly pid: number;
  readonly host: string;
  readonly boot: string;
}

/** A folder of our own for one unpacked model. */
export interface TempFolder {
  readonly path: string;
  remove(): Promise<void>;
}

interface Root {
  readonly path: string;
  readonly lock: Server | undefined;
  users: number;
}

/** One root per temp directory and process, there as long as it holds a model. */
const roots = new Map<string, Root>();
/** Making and removing a root take turns. */
let turn: Promise<unknown> = Promise.resolve();

/** @throws {ServeError} INTERNAL when the temp directory cannot be written */
export async function acquireTempFolder(tempDirectory: string): Promise<TempFolder> {
  const directory = resolve(tempDirectory);
  const root = await inTurn(() => useRoot(directory));
  const path = join(root.path, randomBytes(8).toString('hex'));
  let removed: Promise<void> | undefined;
  const remove = () =>
    (removed ??= rm(path, { recursive: true, force: true, maxRetries: 3 }).finally(() =>
      inTurn(() => leaveRoot(directory, root)),
    ));
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    await remove();
    throw unwritable(directory, error);
  }
  return { path, remove };
}

/**
 * Removes what killed servers left in the temp directory. What belongs to a running one stays.
 * @returns the removed folders
 */
export async function cleanStaleTemp(tempDirectory: string): Promise<string[]> {
  const names = await readdir(tempDirectory).catch(() => []);
  const removed: string[] = [];
  for (const name of names.filter((name) => name.startsWith(prefix))) {
    const path = resolve(tempDirectory, name);
    if ([...roots.values()].some((root) => root.path === path) || (await isAlive(path, name))) continue;
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
    removed.push(path);
  }
  return removed;
}

async function useRoot(directory: string): Promise<Root> {
  const known = roots.get(directory);
  if (known) {
    known.users += 1;
    return known;
  }
  const path = join(directory, `${prefix}${process.pid}-${randomBytes(6).toString('hex')}`);
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const owner: Owner = { pid: process.pid, host: hostname(), boot: bootId() };
    // The lock comes first: a folder with a marker and without a lock counts as left over.
    const server = await holdLock(join(path, lock));
    await writeFile(join(path, marker), JSON.stringify(owner));
    const root = { path, lock: server, users: 1 };
    roots.set(directory, root);
    return root;
  } catch (error) {
    await rm(path, { recursive: true, force: true }).catch(() => undefined);
    throw unwritable(directory, error);
  }
}

async function leaveRoot(directory: string, root: Root): Promise<void> {
  root.users -= 1;
  if (root.users > 0) return;
  roots.delete(directory);
  root.lock?.close();
  await rm(join(root.path, marker), { force: true });
  await rm(join(root.path, lock), { force: true });
  // Links to the packages that handlers share, made by workers.
  await rm(join(root.path, 'node_modules'), { recursive: true, force: true });
  await rmdir(root.path).catch(() => undefined);
}

/** A listening socket is a lock that the kernel lets go of however the process ends, and that is seen across containers. */
async function holdLock(path: string): Promise<Server | undefined> {
  if (process.platform === 'win32' || Buffer.byteLength(path) > longestSocketPath) return undefined;
  const server = createServer((socket) => socket.destroy());
  const listening = await new Promise<boolean>((done) => {
    server.once('error', () => done(false));
    server.listen(path, () => done(true));
  });
  server.unref();
  return listening ? server : undefined;
}

async function isAlive(path: string, name: string): Promise<boolean> {
  const text = await readFile(join(path, marker), 'utf8').catch(() => undefined);
  const owner = text === undefined ? undefined : (parseOwner(text) ?? undefined);
  // The temp directory may be shared between machines; only what ran on this one can be judged.
  if (owner !== undefined && owner.boot !== bootId()) return owner.host !== hostname();
  const socket = join(path, lock);
  const answer = Buffer.byteLength(socket) > longestSocketPath ? 'unknown' : await knock(socket);
  if (answer !== 'unknown') return answer === 'open';
  const pid = owner?.pid ?? Number(name.slice(prefix.length).split('-')[0]);
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function knock(path: string): Promise<'open' | 'refused' | 'unknown'> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      done('open');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code === 'ECONNREFUSED' ? 'refused' : 'unknown'));
  });
}

function parseOwner(text: string): Owner | undefined {
  try {
    return JSON.parse(text) as Owner;
  } catch {
    return undefined;
  }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

function unwritable(directory: string, cause: unknown): ServeError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const what = code === 'ENOSPC' ? 'has no space left' : `cannot be written: ${message}`;
  const text = `The temp directory ${directory} ${what}. Set temp_directory or TMPDIR to another.`;
  return new ServeError('INTERNAL', text, { reason: code === 'ENOSPC' ? 'disk-full' : 'internal', cause });
}

function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const result = turn.then(work);
  turn = result.catch(() => undefined);
  return result;
}
