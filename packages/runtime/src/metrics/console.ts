import { SonicBoom } from './sonic-boom.js';

const FLUSH_MS = 20;
const GATHER = 32 * 1024;
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/** Standard output, buffered for a moment and never waited for: whoever reads it slowly must not slow requests down. */
export class Console {
  #sink: SonicBoom | undefined = new SonicBoom({ fd: 1, sync: false, maxLength: MAX_WAITING_BYTES });
  #gathered = '';
  #timer: NodeJS.Timeout | undefined;

  #droppedLines = 0;

  /** @param onDropped told how many lines were not printed, when it can print again */
  constructor(onDropped: (lines: number) => void) {
    // A closed pipe ends the output, not the server.
    this.#sink?.on('error', () => (this.#sink = undefined));
    this.#sink?.on('drop', (text: string) => {
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#droppedLines += 1;
    });
    this.#sink?.on('drain', () => {
      const lines = this.#droppedLines;
      this.#droppedLines = 0;
      if (lines > 0) onDropped(lines);
    });
  }

  write(text: string): void {
    if (this.#sink === undefined) return;
    this.#gathered += text;
    if (this.#gathered.length >= GATHER) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS).unref();
  }

  flushSync(): void {
    this.#flush();
    try {
      this.#sink?.flushSync();
    } catch {
      // Nobody reads any more.
    }
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#gathered;
    this.#gathered = '';
    if (text !== '') this.#sink?.write(text);
  }
}
