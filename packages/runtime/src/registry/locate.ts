import { stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { ServeError } from '../domain/errors.js';
import type { ArchiveEnvironment, ArchiveInput } from './archive-environment.js';
import { download } from './download.js';
import { isInside } from './entry-path.js';

/** The file or folder that a url stands for. */
export interface Located {
  readonly path: string;
  readonly kind: 'file' | 'folder';
  /** For messages. */
  readonly shownName: string;
  /** It is our copy, to be removed with the model. */
  readonly downloaded: boolean;
}

/**
 * @throws {ServeError} MODEL_NOT_FOUND when it is not there or not allowed; what `download` throws
 */
export async function locate(input: ArchiveInput, env: ArchiveEnvironment): Promise<Located> {
  const { url } = input;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return await locateUrl(url, env);
  const store = env.modelStore === undefined ? undefined : resolve(env.modelStore);
  for (const path of candidates(url, store, input.trusted ?? false)) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    return { path, kind: found.isDirectory() ? 'folder' : 'file', shownName: url, downloaded: false };
  }
  const where = store === undefined ? 'no model_store is set' : `it is not in the model store ${store}`;
  throw new ServeError('MODEL_NOT_FOUND', `There is no archive "${url}": ${where}.`);
}

function candidates(url: string, store: string | undefined, trusted: boolean): string[] {
  if (url.includes('\0')) return [];
  const paths: string[] = [];
  if (store !== undefined && url.trim() !== '' && !url.split(/[/\\]/).includes('..')) {
    const path = resolve(store, url);
    if (path !== store && isInside(store, path)) paths.push(path);
  }
  if (trusted && url.trim() !== '') paths.push(resolve(url));
  return paths;
}

async function locateUrl(text: string, env: ArchiveEnvironment): Promise<Located> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['file:', 'http:', 'https:'].includes(url.protocol)) {
    const what = `"${text}" is no url that can be fetched; file://, http:// and https:// are known.`;
    throw new ServeError('MODEL_NOT_FOUND', what);
  }
  if (env.modelStore === undefined) {
    throw new ServeError('DOWNLOAD_FAILED', 'No model_store is set, so there is no place for downloaded archives.');
  }
  const store = resolve(env.modelStore);
  const path = await download(url, store, env);
  return { path, kind: 'file', shownName: basename(path), downloaded: true };
}
