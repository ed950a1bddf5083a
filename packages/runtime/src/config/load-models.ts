import type { ServerConfig } from './server-config.js';

export type LoadModels = ServerConfig['loadModels'];
export type LoadEntry = Exclude<LoadModels, 'all'>[number];

const archiveEnd = /\.(?:mar|model|tar\.gz|tgz|onnx|zip)$/i;

/**
 * Reads `all`, or a list of `archive` and `name=archive` separated by commas, or by blanks after something that ends like an
 * archive. An archive's own name may hold blanks. With `splitBare` blanks also separate folders (command line only).
 */
export function parseLoadModels(texts: readonly string[], splitBare: boolean): LoadModels {
  const parts = texts.flatMap((text) => text.split(',')).map((part) => part.trim());
  const named = parts.filter((part) => part !== '' && part.toLowerCase() !== 'none');
  if (named.some((part) => part.toLowerCase() === 'all')) return 'all';
  return named.flatMap((part) => splitBlanks(part.replaceAll(/\s*=\s*/g, '='), splitBare)).map(parseEntry);
}

function splitBlanks(part: string, splitBare: boolean): string[] {
  const words = part.split(/\s+/);
  if (splitBare && !words.some((word) => archiveEnd.test(word))) return words;
  const entries: string[] = [];
  let current: string[] = [];
  for (const word of words) {
    if (current.length > 0 && /^[^=:/\\]+=/.test(word)) {
      entries.push(current.join(' '));
      current = [];
    }
    current.push(word);
    if (archiveEnd.test(word)) {
      entries.push(current.join(' '));
      current = [];
    }
  }
  if (current.length > 0) entries.push(current.join(' '));
  return entries;
}

function parseEntry(text: string): LoadEntry {
  // A query of a URL holds `=` too, so a name is only what has nothing of a URL or path in it.
  const match = /^([^=:/\\]+)=(.+)$/.exec(text);
  return match ? { name: match[1], url: match[2] ?? '' } : { name: undefined, url: text };
}

/** True when the entry says where it is without a model store: a URL, or a path. */
export function isSelfContained(entry: LoadEntry): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(entry.url) || /[/\\]/.test(entry.url);
}
