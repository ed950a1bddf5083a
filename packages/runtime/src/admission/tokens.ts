import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Scope, TokenService } from '../domain/authorization.js';
import { ServeError } from '../domain/errors.js';

/** A key that callers must show. */
interface Key {
  /** Its digest, so that comparing takes the same time whatever is wrong. */
  readonly digest: Buffer;
  /** Milliseconds since the epoch; undefined: it never expires. */
  readonly expires: number | undefined;
}

/** The keys in a form that can be written to a file. */
export interface KeySet {
  readonly management: { readonly key: string; readonly expires: Date };
  readonly inference: { readonly key: string; readonly expires: Date };
  readonly API: { readonly key: string };
}

export interface TokensOptions {
  /** The APIs that need a token. */
  readonly required: ReadonlySet<Scope>;
  /** Keys that the operator gave; they do not expire. */
  readonly fixed: Readonly<Partial<Record<Scope, string>>>;
  /** Milliseconds that a key made here is good for. */
  readonly lifetime: number;
  /** The key that makes new ones, when the operator gave it. */
  readonly apiKey?: string | undefined;
  /** Stores the keys made here where their owner finds them. What it throws keeps the old ones. */
  readonly store: (keys: KeySet) => void;
  readonly now?: () => number;
}

/** TorchServe's token authorization: a key for each API, and one that makes new ones. */
export class Tokens implements TokenService {
  readonly #options: TokensOptions;
  readonly #now: () => number;
  #keys: KeySet | undefined;
  #digests: Partial<Record<Scope | 'API', Key>> = {};

  constructor(options: TokensOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    const made = [...options.required].some((scope) => options.fixed[scope] === undefined);
    if (made) this.#use({ management: this.#fresh(), inference: this.#fresh(), API: { key: options.apiKey ?? newKey() } });
    for (const scope of ['inference', 'management'] as const) this.setFixed(scope, options.fixed[scope]);
  }

  /** Stores the keys made here, where their owner finds them. @throws {Error} what `store` throws */
  publish(): void {
    if (this.#keys !== undefined) this.#options.store(this.#keys);
  }

  /** Puts another key in the place of a given one, as when the file that holds it was written anew. */
  setFixed(scope: Scope, key: string | undefined): void {
    if (key !== undefined) this.#digests[scope] = { digest: digestOf(key), expires: undefined };
  }

  check(scope: Scope, authorization: string | undefined): ServeError | undefined {
    if (!this.#options.required.has(scope)) return undefined;
    return this.#judge(scope, authorization, `The ${scope} API`);
  }

  refresh(authorization: string | undefined, type: string | undefined): void {
    if (this.#keys === undefined)
      throw new ServeError('RESOURCE_NOT_FOUND', 'Keys that were given to the server are not renewed by it.');
    const refusal = this.#judge('API', authorization, '/token');
    if (refusal !== undefined) throw refusal;
    if (type !== 'inference' && type !== 'management') {
      const got = type === undefined ? 'there is none' : `it is ${JSON.stringify(type.slice(0, 40))}`;
      throw new ServeError('UNAUTHORIZED', `The parameter type must be inference or management; ${got}.`);
    }
    if (this.#options.fixed[type] !== undefined)
      throw new ServeError('UNAUTHORIZED', `The ${type} key was given to the server, which does not renew it.`);
    const keys = { ...this.#keys, [type]: this.#fresh() };
    this.#options.store(keys);
    this.#use(keys);
  }

  #judge(kind: Scope | 'API', authorization: string | undefined, what: string): ServeError | undefined {
    const key = this.#digests[kind];
    const token = /^Bearer +(\S+)$/.exec(authorization ?? '')?.[1];
    if (token === undefined) {
      const got = authorization === undefined ? 'there is no Authorization header' : 'its Authorization header has another form';
      return unauthorized(`${what} needs a token, "Authorization: Bearer TOKEN"; ${got}.`);
    }
    const same = key !== undefined && timingSafeEqual(key.digest, digestOf(token));
    if (!same) return unauthorized(`${what} needs another token than the one that was sent.`);
    if (key.expires !== undefined && this.#now() > key.expires) {
      return unauthorized(
        `The token has expired; GET /token?type=${kind} of the management API makes a new one with the API key.`,
      );
    }
    return undefined;
  }

  #fresh(): KeySet['inference'] {
    return { key: newKey(), expires: new Date(this.#now() + this.#options.lifetime) };
  }

  #use(keys: KeySet): void {
    this.#keys = keys;
    const timed = ({ key, expires }: KeySet['inference']): Key => ({ digest: digestOf(key), expires: expires.getTime() });
    const { fixed } = this.#options;
    this.#digests = {
      ...this.#digests,
      ...(fixed.inference === undefined ? { inference: timed(keys.inference) } : {}),
      ...(fixed.management === undefined ? { management: timed(keys.management) } : {}),
      API: { digest: digestOf(keys.API.key), expires: undefined },
    };
  }
}

function unauthorized(message: string): ServeError {
  return new ServeError('UNAUTHORIZED', message);
}

/** Longer than TorchServe's eight characters, of the same alphabet. */
function newKey(): string {
  return randomBytes(24).toString('base64url');
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
