import type { FastifyInstance } from 'fastify';
import { removeStaleSocket } from './stale-socket.js';
import { ListenError } from './listen-error.js';
import type { ListenAddress } from '../config/server-config.js';

/**
 * Opens a server at an address.
 * @param setting the configuration key of the address, for messages
 * @returns the address with the port that was given, `http://127.0.0.1:8080` or `unix:/path`
 */
export async function listen(server: FastifyInstance, address: ListenAddress, setting: string): Promise<string> {
  try {
    if (address.path !== undefined) {
      await removeStaleSocket(address.path);
      await server.listen({ path: address.path });
      return `unix:${address.path}`;
    }
    await server.listen({ host: address.host, port: address.port });
  } catch (error) {
    throw new ListenError(explain(error as NodeJS.ErrnoException, address, setting), { cause: error });
  }
  const at = server.server.address();
  const port = at !== null && typeof at === 'object' ? at.port : address.port;
  return `${address.protocol}://${address.host.includes(':') ? `[${address.host}]` : address.host}:${port}`;
}

function explain(error: NodeJS.ErrnoException, address: ListenAddress, setting: string): string {
  const what = `${setting}=${address.text}`;
  const where = address.path ?? `port ${address.port}`;
  switch (error.code ?? '') {
    case 'EADDRINUSE':
      return `${what}: ${where} is in use already; stop the other program or give another address in ${setting}.`;
    case 'EACCES':
      return `${what}: no permission to open ${where}; ports below 1024 usually need privileges.`;
    case 'EADDRNOTAVAIL':
      return `${what}: this machine has no interface with the address ${address.host}.`;
    case 'ENOTFOUND':
      return `${what}: the host name ${address.host} cannot be resolved.`;
    default:
      return `${what}: ${error.message}`;
  }
}
