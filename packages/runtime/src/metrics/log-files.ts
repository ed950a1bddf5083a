import { join } from 'node:path';
import { Console } from './console.js';
import { LogFile } from './log-file.js';

export interface LogFilesOptions {
  /** Folder of access_log.log, ts_log.log and model_log.log. */
  readonly logLocation: string;
  /** Folder of ts_metrics.log and model_metrics.log; undefined: these are not written. */
  readonly metricsLocation: string | undefined;
  readonly toStdout: boolean;
  /** Bytes after which a file is begun anew, and how many old ones are kept. */
  readonly maxBytes: number;
  readonly keep: number;
  /** Default: standard output, buffered. */
  readonly stdout?: (text: string) => void;
  /** Told in a sentence of files that cannot be written, and that can be again. */
  readonly warn: (sentence: string) => void;
}

const FLUSH_MS = 1000;

/** All log files and standard output. One flush a second for all of them, and one at the end. */
export class LogFiles {
  readonly access: LogFile;
  readonly server: LogFile;
  readonly model: LogFile;
  readonly serverMetrics: LogFile | undefined;
  readonly modelMetrics: LogFile | undefined;
  readonly #console: Console | undefined;
  readonly #print: (text: string) => void;
  readonly #toStdout: boolean;
  readonly #timer: NodeJS.Timeout;
  readonly #beforeFlush: Array<() => void> = [];
  readonly #onExit = () => this.flushSync();
  readonly #broken = new Set<string>();

  constructor(options: LogFilesOptions) {
    this.#console =
      options.stdout === undefined
        ? new Console((lines) => options.warn(`${lines} lines were not printed: whoever reads standard output is too slow.`))
        : undefined;
    this.#print = options.stdout ?? ((text) => this.#console?.write(text));
    this.#toStdout = options.toStdout;
    const { maxBytes, keep, warn } = options;
    const open = (folder: string, name: string) => {
      const file = join(folder, name);
      return new LogFile({
        file,
        maxBytes,
        keep,
        onBroken: (error, unwritten) => this.#onBroken(file, error, unwritten, warn),
        onRecovered: () => {
          this.#broken.delete(file);
          if (this.#broken.size === 0) warn('All log files are written again.');
        },
        onTrouble: warn,
      });
    };
    this.server = open(options.logLocation, 'ts_log.log');
    this.access = open(options.logLocation, 'access_log.log');
    this.model = open(options.logLocation, 'model_log.log');
    if (options.metricsLocation !== undefined) {
      this.serverMetrics = open(options.metricsLocation, 'ts_metrics.log');
      this.modelMetrics = open(options.metricsLocation, 'model_metrics.log');
    }
    this.#timer = setInterval(() => this.flush(), FLUSH_MS);
    this.#timer.unref();
    process.on('exit', this.#onExit);
  }

  /** Standard output, unless it is turned off; always while a file is missing, so that nothing is lost in silence. */
  print(text: string): void {
    if (this.#toStdout || this.#broken.size > 0) this.#print(text);
  }

  /** Registers work that is done before each flush (sums that are written once a second). */
  beforeFlush(work: () => void): void {
    this.#beforeFlush.push(work);
  }

  flush(): void {
    for (const work of this.#beforeFlush) work();
    for (const file of this.#files()) file.flush();
  }

  /** After somebody else moved the files away. */
  reopen(): void {
    for (const file of this.#files()) file.reopen();
  }

  flushSync(): void {
    for (const work of this.#beforeFlush) work();
    for (const file of this.#files()) file.flushSync();
    this.#console?.flushSync();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    process.off('exit', this.#onExit);
    for (const work of this.#beforeFlush) work();
    await Promise.all(this.#files().map((file) => file.close()));
    this.#console?.flushSync();
  }

  #files(): LogFile[] {
    return [this.access, this.server, this.model, this.serverMetrics, this.modelMetrics].filter((file) => file !== undefined);
  }

  #onBroken(file: string, error: Error, unwritten: string, warn: (sentence: string) => void): void {
    const first = this.#broken.size === 0;
    this.#broken.add(file);
    if (!this.#toStdout && unwritten !== '') this.#print(unwritten);
    // One cause is most often that of all files.
    if (first)
      warn(`${file} cannot be written (${error.message}); all logs go to standard output until it can, and it is tried again.`);
  }
}
