import { ServeError } from '../../domain/errors.js';

/** Path without its query, and the raw query without the question mark (empty when there is none). */
export function splitUrl(url: string): { path: string; search: string } {
  let start = 0;
  // A proxy may send the absolute form.
  if (!url.startsWith('/')) {
    const authority = /^https?:\/\/[^/?]*/i.exec(url);
    if (authority) start = authority[0].length;
  }
  const mark = url.indexOf('?', start);
  const path = mark < 0 ? url.slice(start) : url.slice(start, mark);
  return { path: path === '' ? '/' : path, search: mark < 0 ? '' : url.slice(mark + 1) };
}

/**
 * Segments of a path, each decoded on its own, so that `%2F` stays inside its segment. `/a/b/` gives `['a', 'b', '']`.
 * @throws {ServeError} INVALID_PATH for a malformed percent escape
 */
export function segmentsOf(path: string): string[] {
  const segments = path.split('/');
  segments.shift();
  return path.includes('%') ? segments.map(decodeSegment) : segments;
}

export function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new ServeError(
      'INVALID_PATH',
      `The path segment "${segment.slice(0, 80)}" has a malformed percent escape; write a literal percent sign as %25.`,
    );
  }
}

/** Query parameters in order. Malformed escapes stay as they are, a plus is a space. */
export function queryPairs(search: string): Array<readonly [string, string]> {
  if (search === '') return [];
  return [...new URLSearchParams(search)];
}
