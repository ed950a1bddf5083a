import { experimental, type Server, ServerCredentials } from '@grpc/grpc-js';
import type { GrpcListen } from '../../config/server-config.js';
import { ListenError } from '../listen-error.js';
import { removeStaleSocket } from '../stale-socket.js';
import type { TlsIdentity } from '../tls-identity.js';

/**
 * Opens a server at an address.
 * @param role names the settings in messages
 * @returns where it is, `127.0.0.1:7070` or `unix:/path`
 */
export async function bind(
  server: Server,
  { host, port, path }: GrpcListen,
  role: 'inference' | 'management',
  tls: TlsIdentity | undefined,
): Promise<string> {
  const shown = host.includes(':') ? `[${host}]` : host;
  try {
    if (path !== undefined) await removeStaleSocket(path);
    const target = path === undefined ? `${shown}:${port}` : `unix:${path}`;
    const bound = await new Promise<number>((resolve, reject) => {
      server.bindAsync(target, credentials(tls), (error, actual) => (error === null ? resolve(actual) : reject(error)));
    });
    return path === undefined ? `${shown}:${bound}` : target;
  } catch (error) {
    throw new ListenError(explain((error as Error).message, { host, port, path }, role), { cause: error });
  }
}

function credentials(tls: TlsIdentity | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const watches = new Map<object, () => void>();
  // Unlike with `createSsl`, what it is told may be renewed. Its first parameter is the identity, whatever its type calls it.
  return experimental.createCertificateProviderServerCredentials(
    {
      addCaCertificateListener: () => undefined,
      removeCaCertificateListener: () => undefined,
      addIdentityCertificateListener(listener) {
        // The library hears nothing of what it is told before this call has returned.
        queueMicrotask(() => {
          const end = tls.watch(({ key, certificate }) =>
            listener({ privateKey: Buffer.from(key), certificate: Buffer.from(certificate) }),
          );
          watches.set(listener, end);
        });
      },
      removeIdentityCertificateListener(listener) {
        watches.get(listener)?.();
        watches.delete(listener);
      },
    },
    null,
    false,
  );
}

/** The library tells what happened only in the text of its error. */
function explain(text: string, { host, port, path }: Pick<GrpcListen, 'host' | 'port' | 'path'>, role: string): string {
  const address = `grpc_${role}_address`;
  const setting = path === undefined ? `grpc_${role}_port` : address;
  const what = path === undefined ? `${setting}=${port}` : `${setting}=unix:${path}`;
  if (text.includes('EADDRINUSE')) {
    const where = path ?? `port ${port} of ${host}`;
    return `${what}: ${where} is in use already; stop the other program or give another value in ${setting}.`;
  }
  if (text.includes('EACCES')) return `${what}: no permission to open it; ports below 1024 usually need privileges.`;
  if (text.includes('EADDRNOTAVAIL')) return `${address}=${host}: this machine has no interface with that address.`;
  if (/ENOTFOUND|Name resolution failed|EAI_/.test(text)) return `${address}=${host}: the host name cannot be resolved.`;
  return `${what}: ${text}`;
}
