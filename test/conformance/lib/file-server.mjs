// A plain HTTP file server for registrations by URL.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { basename, join } from 'node:path';

/**
 * @param {string} folder only files directly in it are served
 * @returns {Promise<{ address: string, stop: () => void }>}
 */
export async function startFileServer(folder) {
  const server = createServer((request, response) => {
    const name = basename(decodeURIComponent(new URL(request.url ?? '/', 'http://files').pathname));
    readFile(join(folder, name)).then(
      (content) => response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(content),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { address: `127.0.0.1:${port}`, stop };
}
