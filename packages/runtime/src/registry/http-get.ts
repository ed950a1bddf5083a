import { lookup, type LookupAddress } from 'node:dns';
import { get as getHttp, type IncomingMessage, type RequestOptions } from 'node:http';
import { get as getHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { ServeError } from '../domain/errors.js';
import { kindOfAddress } from './addresses.js';

export interface GetOptions {
  readonly signal: AbortSignal;
  /** Private and loopback addresses will do. */
  readonly allowPrivate: boolean;
  /** The operator named this host, so any address will do. */
  readonly named: boolean;
}

/**
 * A GET that looks at the address it connects to, not only at the name: a name may lead anywhere, and elsewhere the next time.
 * @throws {ServeError} MODEL_NOT_FOUND when the address must not be fetched from
 */
export async function httpGet(url: URL, options: GetOptions): Promise<IncomingMessage> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) checkAddress(host, url, options);
  const request: RequestOptions = { signal: options.signal, lookup: guarded(url, options), agent: false };
  return await new Promise((resolve, reject) => {
    const get = url.protocol === 'https:' ? getHttps : getHttp;
    get(url, request, resolve).once('error', reject);
  });
}

function guarded(url: URL, options: GetOptions): LookupFunction {
  return (hostname, given, callback) => {
    lookup(hostname, { ...given, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) return callback(error, '', 0);
      try {
        for (const { address } of addresses) checkAddress(address, url, options);
      } catch (refusal) {
        return callback(refusal as Error, '', 0);
      }
      const [first] = addresses;
      if (given.all === true) callback(null, addresses);
      else callback(null, first?.address ?? '', first?.family ?? 0);
    });
  };
}

function checkAddress(address: string, url: URL, { allowPrivate, named }: GetOptions): void {
  const kind = kindOfAddress(address);
  if (kind === 'public' || named || (kind === 'private' && allowPrivate)) return;
  const what = kind === 'private' ? 'a private address' : 'a link-local address';
  const how =
    kind === 'private'
      ? 'allow_private_urls=true allows it, or an entry of allowed_urls that names the host'
      : 'only an entry of allowed_urls that names the host allows it';
  throw new ServeError('MODEL_NOT_FOUND', `The url ${url.href} leads to ${address}, ${what}; ${how}.`, {
    reason: 'url-not-allowed',
  });
}
