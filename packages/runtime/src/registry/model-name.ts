import { ServeError } from '../domain/errors.js';

const longest = 255;

/**
 * A name or version that is safe in URLs, metrics and file names. Spaces, colons and any letters are fine.
 * @throws {ServeError} BAD_REQUEST naming the rule
 */
export function checkModelName(name: string): void {
  checkLabel('model name', name);
}

/** @throws {ServeError} BAD_REQUEST naming the rule */
export function checkModelVersion(version: string): void {
  checkLabel('model version', version);
}

function checkLabel(what: string, text: string): void {
  const rule = brokenRule(text);
  if (rule === undefined) return;
  throw new ServeError('BAD_REQUEST', `The ${what} ${JSON.stringify(text.slice(0, 80))} ${rule}.`);
}

function brokenRule(text: string): string | undefined {
  if (text === '') return 'is empty';
  const bytes = Buffer.byteLength(text);
  if (bytes > longest) return `is ${bytes} bytes long; the limit is ${longest}`;
  if (/[/\\]/.test(text)) return 'holds a slash, which is not allowed';
  if (text === '.' || text.includes('..')) return 'holds "..", which is not allowed';
  if (/\p{Cc}/u.test(text)) return 'holds a control character, which is not allowed';
  if (/\p{Surrogate}/u.test(text)) return 'is not valid Unicode';
  return undefined;
}
