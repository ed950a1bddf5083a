import type { ConfigReader } from './config-reader.js';
import type { GrpcListen } from './server-config.js';

/** The settings of one gRPC listener; what is wrong with them is reported. */
export function readGrpcListen(reader: ConfigReader, role: 'inference' | 'management'): GrpcListen {
  const positive = (key: string) => {
    const value = reader.number(key);
    return value === 0 ? undefined : value;
  };
  const maxConnectionAge = positive(`grpc_${role}_max_connection_age_ms`);
  const maxConnectionAgeGrace = positive(`grpc_${role}_max_connection_age_grace_ms`);
  const port = reader.number(`grpc_${role}_port`);
  const setting = `grpc_${role}_address`;
  const text = reader.raw(setting).trim();
  const at = parseGrpcHost(text);
  if ('problem' in at) reader.report('error', setting, `${setting}=${text}: ${at.problem}`);
  const where = 'problem' in at ? { host: '127.0.0.1' } : at;
  return { ...where, port, maxConnectionAge, maxConnectionAgeGrace };
}

/** Where a listener binds, or what is wrong with the text that should say so. */
type Where = { readonly host: string; readonly path?: string } | { readonly problem: string };

export function parseGrpcHost(text: string): Where {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length).replace(/^\/\/(?=\/)/, '');
    if (path.startsWith('/')) return { host: '', path };
    return { problem: 'unix: needs an absolute path, for example unix:/run/onnxserve-grpc.sock' };
  }
  const host = text.replace(/^\[(.*)\]$/, '$1');
  if (/^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.%\w]*$/.test(host) || /^[\w.-]+$/.test(host)) return { host };
  if (text === '') return { problem: 'the address is empty; give a host such as 127.0.0.1 or 0.0.0.0' };
  return {
    problem: 'expected a host or an IP address without scheme and port; the port is a key of its own',
  };
}
