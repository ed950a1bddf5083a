import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { removeStaleSocket } from './stale-socket.js';

it('removes what a killed server left, and neither the socket of a live one nor what is no socket', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'stale-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const dead = join(folder, 'dead');
  const source = `require('net').createServer().listen(${JSON.stringify(dead)}, () => console.log('listening'))`;
  const child = spawn(process.execPath, ['-e', source], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  const live = join(folder, 'live');
  const server = createServer().listen(live);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  await writeFile(join(folder, 'text'), '');
  for (const name of ['dead', 'live', 'text', 'absent']) await removeStaleSocket(join(folder, name));
  expect((await readdir(folder)).sort()).toEqual(['live', 'text']);
});
