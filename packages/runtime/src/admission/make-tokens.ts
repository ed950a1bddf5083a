import { watchFile } from 'node:fs';
import { join } from 'node:path';
import type { GivenToken, TokenConfig } from '../config/server-config.js';
import type { Scope } from '../domain/authorization.js';
import { readSecret, writeKeyFile } from './key-file.js';
import { type KeySet, Tokens } from './tokens.js';

/** How often a file with a token is looked at. */
const LOOK_MS = 5_000;

/**
 * The tokens that a configuration asks for; undefined when nobody needs one.
 * @throws {Error} naming the file that cannot be read or written, and what to set instead
 */
export function makeTokens(config: TokenConfig, warn: (sentence: string) => void): Tokens | undefined {
  const { required, given } = config;
  if (required.size === 0) return undefined;
  const fixed: Partial<Record<Scope, string>> = {};
  for (const scope of ['inference', 'management'] as const) {
    const it = given[scope];
    if (it === undefined) continue;
    fixed[scope] = secretOf(it);
  }
  const tokens = new Tokens({
    required,
    fixed,
    lifetime: config.lifetimeMinutes * 60_000,
    apiKey: given.API === undefined ? undefined : secretOf(given.API),
    store: (keys) => store(keys, config, warn),
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

/** A start directory that cannot be written is usual in containers; then the temp directory has to do. */
function store(
  all: KeySet,
  { given, keyFile, keyFileMayMove, tempDirectory }: TokenConfig,
  warn: (sentence: string) => void,
): void {
  // A key made in the place of one that was given would let nobody in.
  const keys = Object.fromEntries(Object.entries(all).filter(([kind]) => given[kind as keyof KeySet] === undefined));
  try {
    writeKeyFile(keyFile, keys);
    return;
  } catch (error) {
    const why = (error as Error).message;
    const hint =
      'Set token_key_file to a place that can be written, or give the tokens by ONNXSERVE_INFERENCE_TOKEN, ONNXSERVE_MANAGEMENT_TOKEN or the same with _FILE.';
    if (!keyFileMayMove) throw new Error(`The tokens cannot be written to ${keyFile} (${why}). ${hint}`, { cause: error });
    const other = join(tempDirectory, 'key_file.json');
    try {
      writeKeyFile(other, keys);
    } catch (second) {
      throw new Error(
        `The tokens can be written neither to ${keyFile} (${why}) nor to ${other} (${(second as Error).message}). ${hint}`,
        {
          cause: second,
        },
      );
    }
    warn(`The tokens cannot be written to ${keyFile} (${why}); they are in ${other}. ${hint}`);
  }
}

function secretOf(it: GivenToken): string {
  return 'value' in it ? it.value : named(it.from, () => readSecret(it.file));
}

function named<T>(from: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new Error(`${from}: ${(error as Error).message}.`, { cause: error });
  }
}
