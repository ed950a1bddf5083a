import type { Scope } from '../domain/authorization.js';
import type { Exchange } from './exchange.js';

/** @throws {ServeError} UNAUTHORIZED when the request does not carry the token of the API */
export function authorize(exchange: Exchange, scope: Scope): void {
  const refusal = exchange.settings.tokens?.check(scope, exchange.request.headers.authorization);
  if (refusal !== undefined) throw refusal;
}
