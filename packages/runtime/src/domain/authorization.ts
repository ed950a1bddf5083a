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
