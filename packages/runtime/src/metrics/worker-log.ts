import { workerLog, type WorkerLog } from '../domain/events.js';
import type { LogLevels } from '../domain/log-levels.js';
import { levelRank, record, type Level } from './line-format.js';
import type { LogFiles } from './log-files.js';
import { redact } from './redact.js';

/** Characters of one record; the rest of it is cut off. */
const MAX_RECORD = 64 * 1024;
/** What one worker may log in a burst and in the long run, in characters. */
const BURST = 4 * 1024 * 1024;
const PER_SECOND = 256 * 1024;
/** How long a line waits for the lines of its stack. */
const GATHER_MS = 20;

export interface WorkerLogOptions {
  readonly files: LogFiles;
  readonly levels: LogLevels;
  readonly format: 'torchserve' | 'json';
  readonly dropped?: (model: string, version: string, bytes: number) => void;
  readonly now?: () => number;
}

interface Source {
  readonly model: string;
  readonly version: string;
  readonly workerId: string;
  allowance: number;
  at: number;
  droppedLines: number;
  droppedCharacters: number;
  pending: { readonly event: WorkerLog; readonly level: Level; readonly at: number; text: string } | undefined;
  timer: NodeJS.Timeout | undefined;
}

/** What workers print and log, in model_log.log. A stack is one record; a worker that floods the log loses lines, and the log says how many. */
export class WorkerLogWriter {
  readonly #options: WorkerLogOptions;
  readonly #now: () => number;
  readonly #sources = new Map<string, Source>();
  readonly #end: () => void;
  readonly #timer: NodeJS.Timeout;

  constructor(options: WorkerLogOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#end = workerLog.subscribe((event) => this.#take(event));
    this.#timer = setInterval(() => this.#sweep(), 1000);
    this.#timer.unref();
  }

  close(): void {
    this.#end();
    clearInterval(this.#timer);
    this.#sweep();
  }

  #take(event: WorkerLog): void {
    const level = event.stream === 'stderr' && event.level === 'info' ? 'warn' : event.level;
    if (levelRank[level] < levelRank[this.#options.levels.settings.model]) return;
    const source = this.#source(event);
    const size = event.message.length;
    if (!this.#allow(source, Math.min(size, MAX_RECORD))) {
      source.droppedLines += 1;
      source.droppedCharacters += size;
      this.#options.dropped?.(event.model, event.version, Buffer.byteLength(event.message));
      return;
    }
    const text = event.message.endsWith('\n') ? event.message.slice(0, -1) : event.message;
    const { pending } = source;
    if (event.stream === 'log') {
      this.#emit(source);
      this.#write(source, event, level, this.#now(), text);
      return;
    }
    if (pending?.event.stream === event.stream && continues(text)) {
      if (pending.text.length <= MAX_RECORD) pending.text += `\n${text}`;
      return;
    }
    this.#emit(source);
    source.pending = { event, level, at: this.#now(), text };
    source.timer ??= setTimeout(() => this.#emit(source), GATHER_MS);
  }

  #source({ model, version, workerId }: WorkerLog): Source {
    const key = `${model} ${version} ${workerId}`;
    let source = this.#sources.get(key);
    if (source === undefined) {
      const fresh = {
        allowance: BURST,
        at: this.#now(),
        droppedLines: 0,
        droppedCharacters: 0,
        pending: undefined,
        timer: undefined,
      };
      source = { model, version, workerId, ...fresh };
      this.#sources.set(key, source);
    }
    return source;
  }

  /** A bucket that fills with time. */
  #allow(source: Source, size: number): boolean {
    const now = this.#now();
    source.allowance = Math.min(BURST, source.allowance + ((now - source.at) / 1000) * PER_SECOND);
    source.at = now;
    // Each line costs its frame too, or empty lines would be free.
    const cost = size + 64;
    if (source.allowance < cost) return false;
    source.allowance -= cost;
    return true;
  }

  #emit(source: Source): void {
    clearTimeout(source.timer);
    source.timer = undefined;
    const { pending } = source;
    source.pending = undefined;
    if (pending !== undefined) this.#write(source, pending.event, pending.level, pending.at, pending.text);
  }

  #sweep(): void {
    for (const [key, source] of this.#sources) {
      this.#emit(source);
      if (source.droppedLines > 0) {
        const text = `${source.droppedLines} lines (${source.droppedCharacters} characters) of this worker were dropped: it writes more than ${PER_SECOND / 1024} kB a second.`;
        this.#write(source, { ...source, level: 'warn', stream: 'log', message: text }, 'warn', this.#now(), text);
        source.droppedLines = 0;
        source.droppedCharacters = 0;
      } else if (this.#now() - source.at > 60_000) this.#sources.delete(key);
    }
  }

  #write(source: Source, event: WorkerLog, level: Level, at: number, whole: string): void {
    const { files, format } = this.#options;
    const cut = whole.length > MAX_RECORD;
    const message = redact(cut ? `${whole.slice(0, MAX_RECORD)}... (${whole.length - MAX_RECORD} characters cut off)` : whole);
    const { model, version, workerId } = source;
    let line: string;
    if (format === 'json') {
      const { stream, fields } = event;
      const time = new Date(at).toISOString();
      line = `${redact(JSON.stringify({ time, level, log: 'model', model, version, workerId, stream, message, fields }))}\n`;
    } else {
      const stream = event.stream === 'log' ? 'stdout' : event.stream;
      const fields = event.fields === undefined ? '' : ` ${redact(JSON.stringify(event.fields))}`;
      line = record(at, level, `W-${workerId}-${model}_${version}-${stream}`, 'MODEL_LOG', message + fields);
    }
    files.model.write(line);
    files.print(line);
  }
}

/** Lines that belong to the record before them: indented ones, as in a stack, and what names a cause or closes one. */
function continues(line: string): boolean {
  return /^(\s+\S|\s*$|Caused by:|[)\]}]+[;,]?$|Node\.js v\d)/.test(line);
}
