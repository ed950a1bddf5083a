import { StringDecoder } from 'node:string_decoder';

/** A line longer than this is cut into pieces, characters. */
const LONGEST = 64 * 1024;

/** Cuts output into lines, whatever it is: binary becomes replacement characters, endless lines become pieces. */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) this.#emit(line);
    while (this.#rest.length > LONGEST) {
      this.#onLine(this.#rest.slice(0, LONGEST));
      this.#rest = this.#rest.slice(LONGEST);
    }
  }

  end(): void {
    if (this.#rest.length > 0) this.#emit(this.#rest);
    this.#rest = '';
  }

  #emit(line: string): void {
    const text = line.endsWith('\r') ? line.slice(0, -1) : line;
    for (let at = 0; at === 0 || at < text.length; at += LONGEST) this.#onLine(text.slice(at, at + LONGEST));
  }
}
