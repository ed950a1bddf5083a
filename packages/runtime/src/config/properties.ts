import { type Pair, parseLines } from 'dot-properties';

export interface Property {
  readonly key: string;
  /** As java.util.Properties gives it: escapes resolved, trailing blanks kept. */
  readonly value: string;
  /** 1-based line of the key. */
  readonly line: number;
  /** The value before escapes were resolved. */
  readonly raw: string;
}

export interface PropertiesIssue {
  readonly severity: 'error' | 'warning';
  readonly key: string;
  readonly line: number;
  readonly message: string;
}

export interface ParsedProperties {
  /** The last of each key. */
  readonly properties: ReadonlyMap<string, Property>;
  readonly issues: readonly PropertiesIssue[];
}

/** The text of a properties file: UTF-8 with or without byte order mark, else Latin-1 as Java reads it. */
export function decodeProperties(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return Buffer.from(bytes).toString('latin1');
  }
}

/** Reads Java properties, with the line of each key. */
export function parseProperties(source: string): ParsedProperties {
  // Java ends a line at LF, CR or CRLF; the parser knows a bare CR only in part.
  const text = source.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n');
  const lineOf = lineCounter(text);
  const properties = new Map<string, Property>();
  const issues: PropertiesIssue[] = [];
  for (const node of parseLines(text, true)) {
    if (node.type !== 'PAIR') continue;
    const { key, value } = node as Required<Pair>;
    const [start = 0, , valueStart = 0, end = 0] = node.range;
    const raw = text.slice(valueStart, end);
    const line = lineOf(start);
    const report = (severity: 'error' | 'warning', message: string) => issues.push({ severity, key, line, message });
    const escape = /(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})/.exec(text.slice(start, end));
    if (escape) report('error', `${key}: \\u must be followed by four hexadecimal digits`);
    if (/(?<!\\)(?:\\\\)*\\[ \t\f]+$/.test(raw))
      report(
        'warning',
        `${key}: the backslash at the end of the line is followed by blanks, so the next line does not continue it`,
      );
    const earlier = properties.get(key);
    if (earlier) report('warning', `${key} is set twice; line ${line} replaces line ${earlier.line}`);
    properties.set(key, { key, value, line, raw });
  }
  return { properties, issues };
}

function lineCounter(text: string): (offset: number) => number {
  let line = 1;
  let at = 0;
  // Offsets only grow, so the text is walked once.
  return (offset) => {
    for (; at < offset; at++) if (text[at] === '\n') line++;
    return line;
  };
}
