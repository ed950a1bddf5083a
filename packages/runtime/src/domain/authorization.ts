import type { ServeError } from './errors.js';

export type Scope = 'inference' | 'management';

/** Decides whether a caller may use an API, whatever protocol it speaks. */
export interface Authorizer {
  /**
   * @param authorization value of the `authorization` header (or gRPC metadata entry), undefined when absent
   * @returns why the caller is refused, or undefined when it may go on
   */
  check(scope: Scope, authorization: string | undefined): ServeError | undefined;
}

export interface TokenService extends Authorizer {
  /**
   * Makes a new key for an API; the old one is void at once.
   * @param type `inference` or `management`, as the caller named it
   * @throws {ServeError} UNAUTHORIZED without the API key or for another type, RESOURCE_NOT_FOUND when no key is renewed here
   */
  refresh(authorization: string | undefined, type: string | undefined): void;
}
