/** A header value with parameters, such as `text/plain; charset="utf-8"`. */
export interface HeaderValue {
  /** What stands before the first semicolon, trimmed, in lower case. */
  readonly value: string;
  /** Parameters by lower-case name, quotes removed. The first of a name counts. */
  readonly parameters: ReadonlyMap<string, string>;
}

const parameter = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))|;\s*/y;

/** @returns undefined when the parameters are not well formed */
export function parseHeaderValue(text: string): HeaderValue | undefined {
  const end = text.indexOf(';');
  const value = (end === -1 ? text : text.slice(0, end)).trim().toLowerCase();
  const parameters = new Map<string, string>();
  let at = end === -1 ? text.length : end;
  while (at < text.length) {
    parameter.lastIndex = at;
    const match = parameter.exec(text);
    if (!match) return text.slice(at).trim() === '' ? { value, parameters } : undefined;
    at = parameter.lastIndex;
    while (text[at] === ' ' || text[at] === '\t') at++;
    const name = match[1]?.toLowerCase();
    // Only \" and \\ are escapes: old browsers send the backslashes of Windows paths as they are.
    if (name !== undefined && !parameters.has(name))
      parameters.set(name, match[2]?.replace(/\\(["\\])/g, '$1') ?? match[3]?.trim() ?? '');
  }
  return { value, parameters };
}

/** Decodes an extended value (RFC 8187), for example `UTF-8''na%C3%AFve.txt`; undefined when it is not one. */
export function decodeExtendedValue(text: string): string | undefined {
  const match = /^([^']*)'[^']*'((?:[^%]|%[0-9a-f]{2})*)$/i.exec(text);
  if (!match) return undefined;
  const bytes = Buffer.from(
    match[2]!.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  );
  switch (match[1]!.toLowerCase()) {
    case 'utf-8':
      try {
        return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      } catch {
        return undefined;
      }
    case 'iso-8859-1':
      return bytes.toString('latin1');
    default:
      return undefined;
  }
}
