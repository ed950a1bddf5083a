import { rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';

/** Removes a socket that a killed server left at a path; one that somebody listens on, and what is no socket, stays. */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isSocket() !== true || !(await isRefused(path))) return;
  await rm(path, { force: true });
}

function isRefused(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
}
