import { ServeError } from '../domain/errors.js';

/**
 * Judges a url as it will be fetched: parsed, with dots resolved and the user part gone, so that
 * `http://ok.example@evil/` counts as `http://evil/`.
 * @throws {ServeError} MODEL_NOT_FOUND (404, as TorchServe has it) when no pattern matches
 */
export function checkAllowed(url: URL, patterns: readonly string[]): void {
  const judged = new URL(url);
  judged.username = '';
  judged.password = '';
  judged.hash = '';
  if (url.username !== '' || url.password !== '') {
    throw refused(`The url of ${judged.href} carries a user name or password, which is not supported.`);
  }
  if (patterns.some((pattern) => matches(pattern, judged.href))) return;
  const how =
    patterns.length === 0
      ? 'allowed_urls is empty, so only archives in the model store can be registered'
      : 'it matches none of allowed_urls';
  throw refused(`The url ${judged.href} is not allowed: ${how}.`);
}

/** Whether a pattern says this very host, so that whoever wrote it meant it: `http://10\\.0\\.0\\.5/.*`, not `http://.*`. */
export function isNamed(url: URL, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => {
    const plain = pattern.replaceAll(/\\([.\-[\]:/])/g, '$1').toLowerCase();
    return (
      [`//${url.host}/`, `//${url.hostname}/`, `//${url.hostname}:`].some((host) => plain.includes(host)) &&
      matches(pattern, url.href)
    );
  });
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(`^(?:${pattern})$`, 'i').test(text);
  } catch (error) {
    throw new ServeError('INTERNAL', `allowed_urls holds ${JSON.stringify(pattern)}, which is no regular expression.`, {
      cause: error,
    });
  }
}

function refused(message: string): ServeError {
  return new ServeError('MODEL_NOT_FOUND', message, { reason: 'url-not-allowed' });
}
