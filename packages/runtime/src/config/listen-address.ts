import type { ListenAddress } from './server-config.js';

export type ListenerRole = 'inference' | 'management' | 'metrics';

const defaultPorts: Readonly<Record<ListenerRole, Readonly<Record<'http' | 'https', number>>>> = {
  inference: { http: 80, https: 443 },
  management: { http: 8081, https: 8444 },
  metrics: { http: 8082, https: 8445 },
};

/**
 * Reads `http(s)://host[:port]` or `unix:/path`. Port 0 lets the system choose.
 * @throws {Error} with a sentence that says what is wrong, without the key.
 */
export function parseListenAddress(text: string, role: ListenerRole): ListenAddress {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length).replace(/^\/\/(?=\/)/, '');
    if (!path.startsWith('/')) throw new Error('unix: needs an absolute path, for example unix:/run/onnxserve.sock');
    return { protocol: 'http', host: '', port: 0, path, text };
  }
  const match = /^(https?):\/\/(\[[0-9a-fA-F:.%]+\]|[^\s:/?#@]+)(?::(\d+))?\/?$/i.exec(text);
  if (!match) throw new Error('expected http://host[:port] or unix:/path');
  const protocol = match[1]?.toLowerCase() === 'https' ? 'https' : 'http';
  const host = (match[2] ?? '').replace(/^\[|\]$/g, '');
  const port = match[3] === undefined ? defaultPorts[role][protocol] : Number(match[3]);
  if (port > 65_535) throw new Error('the port must be 0 to 65535');
  return { protocol, host, port, text };
}
