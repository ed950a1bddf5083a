import { closeSync, openSync, writeSync } from 'node:fs';
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { localDate } from './line-format.js';
import { rotate } from './log-rotation.js';

export interface LogFileOptions {
  readonly file: string;
  /** Told when the file cannot be written any more, with the lines that were not written; once until it recovers. */
  readonly onBroken: (error: Error, unwritten: string) => void;
  /** Told when a broken file can be written again. */
  readonly onRecovered?: () => void;
  /** Told of trouble that costs no line, or that has cost some: a sentence. */
  readonly onTrouble?: (sentence: string) => void;
  readonly now?: () => number;
  /** Bytes after which a new file is begun; 0: never a new file, not on a new day either. */
  readonly maxBytes?: number;
  /** Old files that are kept. */
  readonly keep?: number;
  /** Milliseconds after which a file that could not be written is tried again. */
  readonly retryMs?: number;
}

const GATHER_BYTES = 32 * 1024;
/** What may wait in memory for a slow disk; more is dropped. */
const MAX_WAITING = 16 * 1024 * 1024;
/** How often it is looked whether somebody else moved or cut the file. */
const LOOK_MS = 500;

/** A log file, written without waiting for the disk, begun anew each day and at its size. One that cannot be written never fails a caller and is tried again. */
export class LogFile {
  readonly #options: LogFileOptions;
  readonly #maxBytes: number;
  readonly #now: () => number;
  #handle: FileHandle | undefined;
  #inode = 0;
  #gathered = '';
  #bytes = 0;
  #day: string;
  #dropped = 0;
  #lookAt = 0;
  #brokenUntil: number | undefined;
  #reopen = false;
  #pumping: Promise<void> | undefined;
  #closed = false;

  constructor(options: LogFileOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes ?? 100 * 1024 * 1024;
    this.#now = options.now ?? Date.now;
    this.#day = localDate(this.#now());
    this.flush(true);
  }

  /** @param lines ends in a newline */
  write(lines: string): void {
    if (this.#closed || this.#resting) return;
    if (this.#gathered.length > MAX_WAITING) {
      this.#dropped += 1;
      return;
    }
    this.#gathered += lines;
    if (this.#gathered.length >= GATHER_BYTES) this.flush();
  }

  /** Hands what was gathered to the disk, without waiting for it. @param always also when there is nothing, to open the file */
  flush(always = false): void {
    if (this.#closed || this.#pumping !== undefined) return;
    if ((this.#gathered === '' && !this.#reopen && !always) || this.#resting) return;
    this.#pumping = this.#pump().finally(() => (this.#pumping = undefined));
  }

  /** Opens the file anew under its name, after somebody else moved it away. */
  reopen(): void {
    this.#reopen = true;
    this.flush();
  }

  /** Writes everything before it returns; for the end of the process. */
  flushSync(): void {
    const text = this.#gathered;
    this.#gathered = '';
    if (text === '' || this.#resting) return;
    try {
      if (this.#handle !== undefined) writeSync(this.#handle.fd, text);
      else {
        const file = openSync(this.#options.file, 'a');
        writeSync(file, text);
        closeSync(file);
      }
    } catch {
      // The disk is full or gone, and there is nobody left to tell.
    }
  }

  async close(): Promise<void> {
    await this.#pumping;
    this.flush();
    await this.#pumping;
    this.#closed = true;
    await this.#shut();
  }

  async #pump(): Promise<void> {
    let unwritten = '';
    try {
      await this.#ready();
      while (this.#gathered !== '') {
        await this.#beginAnew();
        unwritten = this.#gathered;
        this.#gathered = '';
        const bytes = Buffer.from(unwritten);
        // `appendFile` goes on after a write of a part.
        await this.#handle?.appendFile(bytes);
        this.#bytes += bytes.length;
        unwritten = '';
        this.#written();
      }
    } catch (error) {
      await this.#broken(error as Error, unwritten);
    }
  }

  /** Opens the file if it is not open, or if its name means another one by now. */
  async #ready(): Promise<void> {
    const { file } = this.#options;
    const now = this.#now();
    if (this.#handle !== undefined && !this.#reopen && now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      const found = await stat(file).catch(() => undefined);
      if (found?.ino !== this.#inode) this.#reopen = true;
      else this.#bytes = Math.min(this.#bytes, found.size);
    }
    if (this.#handle !== undefined && !this.#reopen) return;
    this.#reopen = false;
    await this.#shut();
    await mkdir(dirname(file), { recursive: true });
    this.#handle = await open(file, 'a');
    const { size, ino, mtimeMs } = await this.#handle.stat();
    this.#inode = ino;
    this.#bytes = size;
    // What another run wrote yesterday is yesterday's file.
    const today = localDate(now);
    const written = localDate(mtimeMs);
    this.#day = size > 0 && written < today ? written : today;
  }

  async #beginAnew(): Promise<void> {
    const today = localDate(this.#now());
    const due = this.#maxBytes > 0 && this.#bytes > 0 && (today !== this.#day || this.#bytes >= this.#maxBytes);
    if (!due) {
      this.#day = today;
      return;
    }
    const { file, keep = 10, onTrouble } = this.#options;
    const day = this.#day;
    this.#day = today;
    try {
      await rotate(file, day, keep);
    } catch (error) {
      // Better a file that is too long than none. It is tried again when as much more was written.
      this.#bytes = 1;
      onTrouble?.(`${file} could not be moved aside and goes on growing: ${(error as Error).message}`);
      return;
    }
    this.#reopen = true;
    await this.#ready();
  }

  /** It could not be written, and the time to try again has not come. */
  get #resting(): boolean {
    return this.#brokenUntil !== undefined && this.#now() < this.#brokenUntil;
  }

  #written(): void {
    const { file, onRecovered, onTrouble } = this.#options;
    if (this.#brokenUntil !== undefined) {
      this.#brokenUntil = undefined;
      onRecovered?.();
    }
    if (this.#dropped === 0) return;
    onTrouble?.(`${this.#dropped} lines were not written to ${file}: the disk is too slow for them.`);
    this.#dropped = 0;
  }

  async #broken(error: Error, unwritten: string): Promise<void> {
    const { onBroken, retryMs = 10_000 } = this.#options;
    const first = this.#brokenUntil === undefined;
    this.#brokenUntil = this.#now() + retryMs;
    const lost = unwritten + this.#gathered;
    this.#gathered = '';
    await this.#shut();
    if (first) onBroken(error, lost);
  }

  async #shut(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close().catch(() => undefined);
  }
}
