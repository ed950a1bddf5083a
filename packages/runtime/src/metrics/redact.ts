const hidden = '***';

const secretNames =
  'x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid|googleaccessid|signature|sig|(?:access_|refresh_|id_|sas_?)?token|api[-_]?key|key|password|passwd|secret';
/** `?name=value`, also where the whole address stands percent-encoded in another one's query. */
const parameter = new RegExp(`([?&;]|%3f|%26)(${secretNames})(=|%3d)(?:(?!%26)[^&;\\s"'<>\\\\])+`, 'gi');
/** Also in JSON, where a quote may stand between a header's name and its value. */
const credentials = /(\bbearer|\bauthorization\W{1,4}basic)(\s+|%20|\+)[A-Za-z0-9._~+/=-]{4,}/gi;
/** `scheme://user:password@host`. */
const userInfo = /(:\/\/|%3a%2f%2f)[^\s/@"?#%]+(:|%3a)[^\s/@"]+?(@|%40)/gi;
const keyFields = /("(?:key|token|password|secret|authorization|api[-_]?key)"\s*:\s*")[^"]+"/gi;

/** Hides tokens, passwords and the signatures of signed addresses in a line for a log. */
export function redact(text: string): string {
  let safe = text;
  // Most lines hold nothing of the kind; the first look is cheap.
  if (safe.includes('=') || safe.includes('%3')) safe = safe.replace(parameter, `$1$2$3${hidden}`);
  if (/bearer|authorization/i.test(safe)) safe = safe.replace(credentials, `$1$2${hidden}`);
  if (safe.includes('@') || safe.includes('%40')) safe = safe.replace(userInfo, `$1${hidden}$3`);
  if (safe.includes('":')) safe = safe.replace(keyFields, `$1${hidden}"`);
  return safe;
}
