import { watchFile } from 'node:fs';
import type { TokenConfig } from '../config/server-config.js';
import type { Scope } from '../domain/authorization.js';
import { readSecret, writeKeyFile } from './key-file.js';
import { Tokens } from './tokens.js';

/** How often a file with a token is looked at. */
const LOOK_MS = 5_000;

/**
 * The tokens that a configuration asks for; undefined when nobody needs one.
 * @throws {Error} naming the file that cannot be read or written, and what to set instead
 */
export function makeTokens(config: TokenConfig, warn: (sentence: string) => void): Tokens | undefined {
  const { required, given, keyFile } = config;
  if (required.size === 0) return undefined;
  const fixed: Partial<Record<Scope, string>> = {};
  for (const scope of ['inference', 'management'] as const) {
    const it = given[scope];
    if (it === undefined) continue;
    fixed[scope] = 'value' in it ? it.value : named(it.from, () => readSecret(it.file));
  }
  const tokens = new Tokens({
    required,
    fixed,
    lifetime: config.lifetimeMinutes * 60_000,
    store(keys) {
      try {
        writeKeyFile(keyFile, keys);
      } catch (error) {
        throw new Error(
          `The tokens cannot be written to ${keyFile} (${(error as Error).message}). Set token_key_file to a place that can be written, give the token by ` +
            'ONNXSERVE_MANAGEMENT_TOKEN or ONNXSERVE_MANAGEMENT_TOKEN_FILE, or set disable_token_authorization=true.',
          { cause: error },
        );
      }
    },
  });
  for (const scope of ['inference', 'management'] as const) {
    const it = given[scope];
    if (it === undefined || !('file' in it)) continue;
    // By polling: a mounted secret is replaced by way of links, which other watches lose.
    watchFile(it.file, { interval: LOOK_MS, persistent: false }, () => {
      try {
        tokens.setFixed(scope, readSecret(it.file));
      } catch (error) {
        warn(`${it.from}: ${(error as Error).message}; the old token still holds.`);
      }
    });
  }
  return tokens;
}

/** For the log: who needs a token and where it is, never the token. */
export function describeTokens({ required, given, keyFile }: TokenConfig): string {
  const each = [...required].map(
    (scope) => `${scope} needs the token ${given[scope] === undefined ? `of ${keyFile}` : `given by ${given[scope].from}`}`,
  );
  return `token authorization: ${each.join(', ')}`;
}

function named<T>(from: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new Error(`${from}: ${(error as Error).message}.`, { cause: error });
  }
}
