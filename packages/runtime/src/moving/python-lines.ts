/** One logical line of Python: continuation lines joined, comments gone. */
export interface PythonLine {
  /** Columns before the code; a tab goes to the next multiple of 8. */
  readonly indent: number;
  /** 1-based line on which it begins. */
  readonly line: number;
  /** The code, with every string literal replaced by `"N"`, N being its place in `strings` of the whole file. */
  readonly text: string;
}

export interface PythonLines {
  readonly lines: readonly PythonLine[];
  /** What stands between the quotes, escapes as written. */
  readonly strings: readonly string[];
}

/** Splits Python source into logical lines. Never fails: source that is no Python gives lines that mean nothing. */
export function pythonLines(source: string): PythonLines {
  return new Splitter(source.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n')).split();
}

class Splitter {
  readonly #source: string;
  readonly #lines: PythonLine[] = [];
  readonly #strings: string[] = [];
  #at = 0;
  #line = 1;
  #depth = 0;
  #text = '';
  #indent = 0;
  #begin = 1;

  constructor(source: string) {
    this.#source = source;
  }

  split(): PythonLines {
    this.#startLine();
    while (this.#at < this.#source.length) this.#step(this.#source[this.#at]!);
    this.#endLine();
    return { lines: this.#lines, strings: this.#strings };
  }

  #step(char: string): void {
    switch (char) {
      case '#':
        while (this.#at < this.#source.length && this.#source[this.#at] !== '\n') this.#at++;
        return;
      case '"':
      case "'":
        this.#string(char);
        return;
      case '\\':
        // A backslash before the end of the line joins the next one.
        if (this.#source[this.#at + 1] === '\n') this.#line++;
        this.#text += ' ';
        this.#at += 2;
        return;
      case '\n':
        this.#at++;
        this.#line++;
        if (this.#depth > 0) this.#text += ' ';
        else {
          this.#endLine();
          this.#startLine();
        }
        return;
      case ';':
        if (this.#depth === 0) {
          this.#at++;
          this.#endLine();
          return;
        }
        break;
      case '(':
      case '[':
      case '{':
        this.#depth++;
        break;
      case ')':
      case ']':
      case '}':
        this.#depth = Math.max(0, this.#depth - 1);
        break;
      default:
    }
    this.#text += char;
    this.#at++;
  }

  #startLine(): void {
    let indent = 0;
    for (; this.#at < this.#source.length; this.#at++) {
      const char = this.#source[this.#at];
      if (char === ' ') indent++;
      else if (char === '\t') indent += 8 - (indent % 8);
      else if (char !== '\f') break;
    }
    this.#indent = indent;
    this.#begin = this.#line;
  }

  #endLine(): void {
    const text = this.#text.trim();
    if (text !== '') this.#lines.push({ indent: this.#indent, line: this.#begin, text });
    this.#text = '';
    this.#begin = this.#line;
  }

  #string(quote: string): void {
    const prefix = /[A-Za-z]{0,2}$/.exec(this.#text)?.[0] ?? '';
    const isPrefix = /^(?:[rbuft]|rb|br|rf|fr|rt|tr)$/i.test(prefix) && !/[\w]$/.test(this.#text.slice(0, -prefix.length));
    if (isPrefix) this.#text = this.#text.slice(0, -prefix.length);
    const from = this.#at;
    const delimiter = this.#source.startsWith(quote.repeat(3), from) ? quote.repeat(3) : quote;
    const start = from + delimiter.length;
    const end = endOfString(this.#source, start, delimiter, isPrefix && /[ft]/i.test(prefix));
    const closed = this.#source.startsWith(delimiter, end);
    this.#text += `"${this.#strings.length}"`;
    this.#strings.push(this.#source.slice(start, end));
    this.#at = closed ? end + delimiter.length : end;
    for (let at = from; at < this.#at; at++) if (this.#source[at] === '\n') this.#line++;
  }
}

/** @returns where the closing quotes are; the end of the line or file when there are none */
function endOfString(source: string, start: number, delimiter: string, fields: boolean): number {
  let at = start;
  while (at < source.length) {
    if (source.startsWith(delimiter, at)) return at;
    const char = source[at];
    if (char === '\\') at += 2;
    else if (char === '\n' && delimiter.length === 1) return at;
    else if (fields && char === '{') at = source[at + 1] === '{' ? at + 2 : endOfField(source, at + 1, delimiter);
    else at++;
  }
  return source.length;
}

/** The field of a format string may hold strings of its own, since Python 3.12 with the same quotes. @returns what comes after `}` */
function endOfField(source: string, start: number, outer: string): number {
  let at = start;
  let depth = 0;
  while (at < source.length) {
    const char = source[at]!;
    if (char === '"' || char === "'") {
      const delimiter = source.startsWith(char.repeat(3), at) ? char.repeat(3) : char;
      const end = endOfString(
        source,
        at + delimiter.length,
        delimiter,
        /[ftFT][rR]?$/.test(source.slice(Math.max(0, at - 2), at)),
      );
      at = source.startsWith(delimiter, end) ? end + delimiter.length : end;
      continue;
    }
    if (char === '\n' && outer.length === 1 && depth === 0) return at;
    if (char === ':' && depth === 0) return endOfFormat(source, at + 1, outer);
    if (char === '}' && depth === 0) return at + 1;
    if ('([{'.includes(char)) depth++;
    else if (')]}'.includes(char)) depth--;
    at++;
  }
  return source.length;
}

/** After the colon of a field quotes mean nothing but the end of the whole string. */
function endOfFormat(source: string, start: number, outer: string): number {
  let at = start;
  while (at < source.length && !source.startsWith(outer, at) && source[at] !== '\n') {
    if (source[at] === '}') return at + 1;
    at = source[at] === '{' ? endOfField(source, at + 1, outer) : at + 1;
  }
  return at;
}
