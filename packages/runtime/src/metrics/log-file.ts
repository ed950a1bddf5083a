import { once } from 'node:events';
import { accessSync, appendFileSync, constants, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { SonicBoom } from './sonic-boom.js';
import { localDate } from './line-format.js';

export interface LogFileOptions {
  readonly file: string;
  /** Told once, when the file cannot be written (any more). */
  readonly onBroken: (error: Error) => void;
  readonly now?: () => number;
  /** Bytes after which a new file is begun. */
  readonly maxBytes?: number;
  /** Old files that are kept. */
  readonly keep?: number;
}

const GATHER_BYTES = 32 * 1024;
/** What may wait in memory for a slow disk; more is dropped. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/** A log file, buffered, begun anew each day and at 100 MB. A file that cannot be written is given up and never fails a caller. */
export class LogFile {
  readonly #options: LogFileOptions;
  readonly #maxBytes: number;
  readonly #now: () => number;
  #sink: SonicBoom | undefined;
  /** Until the file is open, lines are only gathered. */
  #open = false;
  #gathered = '';
  #bytes = 0;
  #day: string;

  constructor(options: LogFileOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes ?? 100 * 1024 * 1024;
    this.#now = options.now ?? Date.now;
    this.#day = localDate(this.#now());
    try {
      mkdirSync(dirname(options.file), { recursive: true });
      accessSync(dirname(options.file), constants.W_OK);
      this.#bytes = statSync(options.file, { throwIfNoEntry: false })?.size ?? 0;
      const sink = new SonicBoom({ dest: options.file, append: true, sync: false, maxLength: MAX_WAITING_BYTES });
      sink.on('error', (error: Error) => this.#broken(error));
      sink.on('ready', () => {
        this.#open = true;
        this.flush();
      });
      this.#sink = sink;
    } catch (error) {
      this.#broken(error as Error);
    }
  }

  get usable(): boolean {
    return this.#sink !== undefined;
  }

  /** @param lines ends in a newline */
  write(lines: string): void {
    if (this.#sink === undefined || this.#gathered.length > MAX_WAITING_BYTES) return;
    this.#gathered += lines;
    if (this.#gathered.length >= GATHER_BYTES) this.flush();
  }

  /** Hands what was gathered to the disk, without waiting for it. */
  flush(): void {
    const sink = this.#sink;
    if (sink === undefined || !this.#open || this.#gathered === '') return;
    this.#rotate(sink);
    if (!this.#open) return;
    this.#bytes += Buffer.byteLength(this.#gathered);
    sink.write(this.#gathered);
    this.#gathered = '';
  }

  /** Writes everything before it returns; for the end of the process. */
  flushSync(): void {
    this.flush();
    try {
      if (this.#open) this.#sink?.flushSync();
      else if (this.#sink !== undefined) appendFileSync(this.#options.file, this.#gathered);
      this.#gathered = '';
    } catch {
      // The disk is full or gone, and there is nobody left to tell.
    }
  }

  async close(): Promise<void> {
    const sink = this.#sink;
    if (sink === undefined) return;
    while (this.#sink !== undefined && (!this.#open || this.#gathered !== '')) {
      if (!this.#open) await Promise.race([once(sink, 'ready'), once(sink, 'error')]);
      this.flush();
    }
    this.#sink = undefined;
    await new Promise<void>((resolve) => {
      sink.once('close', resolve);
      sink.once('error', () => resolve());
      sink.end();
    });
  }

  #rotate(sink: SonicBoom): void {
    const today = localDate(this.#now());
    if (this.#bytes === 0 || (today === this.#day && this.#bytes < this.#maxBytes)) {
      this.#day = today;
      return;
    }
    const { file } = this.#options;
    try {
      const folder = dirname(file);
      const stem = basename(file, '.log');
      const prefix = `${stem}.${this.#day}.`;
      const old = readdirSync(folder).filter((name) => name.startsWith(`${stem}.`) && /\.\d{4}-\d\d-\d\d\.\d+\.log$/.test(name));
      const taken = old
        .filter((name) => name.startsWith(prefix))
        .map((name) => Number(name.slice(prefix.length, -'.log'.length)));
      renameSync(file, join(folder, `${prefix}${Math.max(0, ...taken) + 1}.log`));
      const surplus = old.sort(byAge).slice(0, Math.max(0, old.length + 1 - (this.#options.keep ?? 10)));
      for (const name of surplus) rmSync(join(folder, name), { force: true });
      this.#open = false;
      sink.reopen();
      this.#bytes = 0;
      this.#day = today;
    } catch (error) {
      this.#broken(error as Error);
    }
  }

  #broken(error: Error): void {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#gathered = '';
    sink?.destroy();
    this.#options.onBroken(error);
  }
}

/** `name.2024-05-01.2.log` before `name.2024-05-01.10.log` before the next day's. */
function byAge(a: string, b: string): number {
  const parts = (name: string) => /\.(\d{4}-\d\d-\d\d)\.(\d+)\.log$/.exec(name)!;
  const [, dayA = '', countA] = parts(a);
  const [, dayB = '', countB] = parts(b);
  return dayA === dayB ? Number(countA) - Number(countB) : dayA < dayB ? -1 : 1;
}
