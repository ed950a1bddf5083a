import { posix, resolve, sep } from 'node:path';
import { ServeError } from '../domain/errors.js';

/**
 * The name of an archive entry as a relative path with forward slashes; empty for the root itself.
 * @throws {ServeError} INVALID_MODEL for a path that is absolute, has a drive letter, climbs, or holds a NUL
 */
export function entryPath(name: string): string {
  const slashed = name.replaceAll('\\', '/');
  if (slashed.includes('\0')) throw unsafe(name, 'holds a NUL character');
  if (slashed.startsWith('/')) throw unsafe(name, 'is absolute');
  if (/^[A-Za-z]:/.test(slashed)) throw unsafe(name, 'has a drive letter');
  if (slashed.split('/').includes('..')) throw unsafe(name, 'leaves the archive with ".."');
  const normal = posix.normalize(slashed).replace(/\/$/, '');
  return normal === '.' ? '' : normal;
}

/** True when `path` (absolute) is `root` or lies below it. */
export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/**
 * Absolute path of a file that a manifest or a configuration names.
 * @param field what names it, for the message
 * @throws {ServeError} INVALID_MODEL when it lies outside the archive
 */
export function pathInside(root: string, name: string, field: string): string {
  const path = resolve(root, name.replaceAll('\\', '/'));
  if (name.includes('\0') || !isInside(root, path) || path === root) {
    throw new ServeError('INVALID_MODEL', `${field} names ${JSON.stringify(name)}, which is no path inside the archive.`);
  }
  return path;
}

function unsafe(name: string, why: string): ServeError {
  return new ServeError('INVALID_MODEL', `The archive's entry ${JSON.stringify(name)} ${why}; such archives are refused.`);
}
