import { ServeError } from '../domain/errors.js';
import type { Exchange } from './exchange.js';

/** How long the client waits from the moment its request arrives, milliseconds. */
export const timeoutHeader = 'x-request-timeout-ms';
/** Envoy's, with which gateways and meshes say how long they will wait. */
const envoyHeader = 'x-envoy-expected-rq-timeout-ms';
/** As long as anybody may wait for anything here. */
const longest = 7 * 86_400_000;

/**
 * When nobody will wait for the answer any more, monotonic nanoseconds; undefined when nobody says.
 * @throws {ServeError} BAD_REQUEST when the client's own header is no number of milliseconds; the gateway's is passed over then
 */
export function deadlineOf(exchange: Exchange): number | undefined {
  const { headers } = exchange.request;
  const own = headers[timeoutHeader];
  const gateway = headers[envoyHeader];
  if (own === undefined && gateway === undefined) return undefined;
  const mine = own === undefined ? undefined : milliseconds(own);
  if (own !== undefined && mine === undefined) {
    throw new ServeError(
      'BAD_REQUEST',
      `The header ${timeoutHeader} is ${JSON.stringify(String(own).slice(0, 40))}; it must be a whole number of milliseconds from 1 to ${longest}.`,
    );
  }
  const theirs = gateway === undefined ? undefined : milliseconds(gateway);
  const least = Math.min(mine ?? Infinity, theirs ?? Infinity);
  return least === Infinity ? undefined : exchange.startedAt + least * 1e6;
}

function milliseconds(value: string | string[]): number | undefined {
  if (typeof value !== 'string' || !/^\d{1,10}$/.test(value)) return undefined;
  const number = Number(value);
  return number >= 1 && number <= longest ? number : undefined;
}
