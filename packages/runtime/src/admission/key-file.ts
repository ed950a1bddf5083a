import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { KeySet } from './tokens.js';

/** TorchServe's `key_file.json`. It appears whole, for its owner's eyes only. @throws {Error} when it cannot be written */
export function writeKeyFile(path: string, { management, inference, API }: Partial<KeySet>): void {
  const timed = (it: KeySet['inference'] | undefined) => it && { key: it.key, 'expiration time': it.expires.toISOString() };
  const content = { management: timed(management), inference: timed(inference), API: API && { key: API.key } };
  const part = `${path}.${randomBytes(6).toString('hex')}.part`;
  try {
    // `wx`: never through a link that somebody else put there.
    writeFileSync(part, `${JSON.stringify(content, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
    renameSync(part, path);
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
}

/** The key in a file, such as a mounted secret: its text without blanks around it. @throws {Error} naming the file */
export function readSecret(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  if (!/^\S+$/.test(text)) throw new Error(`${path} must hold one word, the token`);
  return text;
}
