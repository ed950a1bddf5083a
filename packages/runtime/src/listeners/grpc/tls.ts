import { readFile } from 'node:fs/promises';
import type { ServerConfig } from '../../config/server-config.js';
import { ListenError } from '../listen.js';
import type { TlsMaterial } from './bind.js';

/** What the configuration names for TLS. @throws {ListenError} naming the setting that is missing or whose file cannot be read */
export async function tlsMaterial({ certificateFile, privateKeyFile }: ServerConfig): Promise<TlsMaterial> {
  const [certificate, key] = await Promise.all([
    read('certificate_file', certificateFile),
    read('private_key_file', privateKeyFile),
  ]);
  return { certificate, key };
}

async function read(setting: string, file: string | undefined): Promise<Buffer> {
  if (file === undefined)
    throw new ListenError(`enable_grpc_ssl=true needs ${setting}, a PEM file; set it, or turn enable_grpc_ssl off.`);
  try {
    return await readFile(file);
  } catch (error) {
    throw new ListenError(`${setting}=${file} cannot be read: ${(error as Error).message}.`, { cause: error });
  }
}
