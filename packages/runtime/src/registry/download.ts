import { randomBytes } from 'node:crypto';
import { constants, createReadStream, createWriteStream } from 'node:fs';
import { copyFile, link, lstat, readdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ServeError } from '../domain/errors.js';
import { checkAllowed, isNamed } from './allowed-urls.js';
import type { ArchiveEnvironment } from './archive-environment.js';
import { httpGet } from './http-get.js';

const maxRedirects = 5;
const defaultTimeout = 600_000;
const stalePart = 6 * defaultTimeout;

/**
 * Brings the archive of a url into a folder, under its base name. Nothing is left behind when it fails.
 * @returns absolute path of the new file
 * @throws {ServeError} MODEL_NOT_FOUND (not allowed), DOWNLOAD_FAILED, CONFLICT (a file of the name is there already)
 */
export async function download(url: URL, folder: string, env: ArchiveEnvironment): Promise<string> {
  checkAllowed(url, env.allowedUrls);
  const name = fileNameOf(url);
  const target = join(folder, name);
  if (await lstat(target).catch(() => undefined)) throw taken(name, folder);
  const part = join(folder, `.${name.slice(0, 200)}.${randomBytes(6).toString('hex')}.part`);
  const signal = AbortSignal.timeout(env.limits.downloadTimeout ?? defaultTimeout);
  try {
    await removeStaleParts(folder);
    const source = url.protocol === 'file:' ? await openFile(url, env.allowedUrls) : await openHttp(url, env, signal);
    await pipeline(source, limiter(url, env.limits.maxArchiveSize), createWriteStream(part, { flags: 'wx' }), { signal });
    await place(part, target, name, folder);
    return target;
  } catch (error) {
    // An answer that is cut off by the time limit may fail in its own words first.
    throw asDownloadError(signal.aborted && !(error instanceof ServeError) ? signal.reason : error, url, folder, env);
  } finally {
    await rm(part, { force: true });
  }
}

/** What servers that were killed while downloading left. The age spares the downloads of another server on the same store. */
async function removeStaleParts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^\..+\.[0-9a-f]{12}\.part$/.test(name)) continue;
    const part = join(folder, name);
    const found = await stat(part).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > stalePart) await rm(part, { force: true });
  }
}

function fileNameOf(url: URL): string {
  let name: string;
  try {
    name = decodeURIComponent(url.pathname.split('/').at(-1) ?? '');
  } catch {
    name = '';
  }
  if (name !== '' && !name.startsWith('.') && !/[/\\\p{Cc}]/u.test(name) && Buffer.byteLength(name) <= 255) return name;
  throw new ServeError('DOWNLOAD_FAILED', `The url ${url.href} ends in no usable file name.`);
}

async function openFile(url: URL, allowedUrls: readonly string[]): Promise<Readable> {
  const path = fileURLToPath(url);
  const real = pathToFileURL(await realpath(path));
  // A link inside an allowed folder must not lead out of it.
  if (real.href !== url.href) checkAllowed(real, allowedUrls);
  if (!(await stat(path)).isFile()) {
    throw new ServeError('DOWNLOAD_FAILED', `${path} is no file. Folders are registered by their name in the model store.`);
  }
  return createReadStream(path);
}

async function openHttp(start: URL, env: ArchiveEnvironment, signal: AbortSignal): Promise<Readable> {
  let url = start;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const options = { signal, allowPrivate: env.allowPrivate ?? false, named: isNamed(url, env.allowedUrls) };
    const response = await httpGet(url, options);
    const { statusCode: status = 0 } = response;
    const { location } = response.headers;
    if (status >= 300 && status < 400 && location !== undefined) {
      response.destroy();
      url = redirected(start, url, location);
      checkAllowed(url, env.allowedUrls);
      continue;
    }
    if (status < 200 || status >= 300) {
      response.destroy();
      throw new ServeError('DOWNLOAD_FAILED', `${url.href} answered with status ${status}.`);
    }
    if (Number(response.headers['content-length'] ?? 0) > env.limits.maxArchiveSize) {
      response.destroy();
      throw tooLarge(url, env.limits.maxArchiveSize);
    }
    return response;
  }
  throw new ServeError('DOWNLOAD_FAILED', `${start.href} redirects more than ${maxRedirects} times.`);
}

/** A redirect may lead to another place of the same host, nowhere else: what was allowed was this host. */
function redirected(start: URL, from: URL, location: string): URL {
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (to === undefined) throw new ServeError('DOWNLOAD_FAILED', `${start.href} redirects to what is no url.`);
  if (to.protocol !== 'http:' && to.protocol !== 'https:')
    throw new ServeError('MODEL_NOT_FOUND', `${start.href} redirects to ${to.href}; only http and https are followed.`);
  // A port is another service; from http to https of one host is the one step that servers make.
  const upgraded = from.protocol === 'http:' && to.protocol === 'https:' && from.port === '' && to.port === '';
  if (to.hostname !== start.hostname || (to.origin !== from.origin && !upgraded))
    throw new ServeError(
      'MODEL_NOT_FOUND',
      `${start.href} redirects to another host, ${to.protocol}//${to.host}, which is not followed; register the url that it leads to.`,
      { reason: 'url-not-allowed' },
    );
  return to;
}

function limiter(url: URL, limit: number): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > limit) done(tooLarge(url, limit));
      else done(null, chunk);
    },
  });
}

/** Gives the finished file its name without ever replacing another. */
async function place(part: string, target: string, name: string, folder: string): Promise<void> {
  try {
    await link(part, target);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw taken(name, folder);
    // Some file systems know no hard links.
    await copyFile(part, target, constants.COPYFILE_EXCL);
  }
}

function taken(name: string, folder: string): ServeError {
  const what = `"${name}" is in ${folder} already. Register it by that name, or remove it or unregister its model first.`;
  return new ServeError('CONFLICT', what);
}

function tooLarge(url: URL, limit: number): ServeError {
  return new ServeError('DOWNLOAD_FAILED', `${url.href} is larger than ${limit} bytes, the limit set by max_archive_size.`, {
    reason: 'input-too-large',
  });
}

function asDownloadError(error: unknown, url: URL, folder: string, env: ArchiveEnvironment): ServeError {
  if (error instanceof ServeError) return error;
  const { name, code, message, cause } = error as NodeJS.ErrnoException & { cause?: { message?: string } };
  if (name === 'TimeoutError' || (name === 'AbortError' && code === 'ABORT_ERR')) {
    const seconds = (env.limits.downloadTimeout ?? defaultTimeout) / 1000;
    return new ServeError('DOWNLOAD_FAILED', `${url.href} was not there after ${seconds} s.`, { cause: error });
  }
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new ServeError('INTERNAL', `No space is left for ${url.href} in ${folder}.`, { reason: 'disk-full', cause: error });
  }
  const why = cause?.message ?? message;
  return new ServeError('DOWNLOAD_FAILED', `${url.href} could not be fetched: ${why}.`, { cause: error });
}
