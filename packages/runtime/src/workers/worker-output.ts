import { workerLog } from '../domain/events.js';
import type { LoadSpec } from '../ipc/messages.js';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** What a worker prints and logs, and what is said about it. */
export class WorkerOutput {
  readonly #workerId: string;
  readonly #spec: Pick<LoadSpec, 'name' | 'version'>;
  /** The last lines on stderr, which say why a process ended. */
  #last: string[] = [];

  constructor(workerId: string, spec: Pick<LoadSpec, 'name' | 'version'>) {
    this.#workerId = workerId;
    this.#spec = spec;
  }

  /** A new process. */
  begin(): void {
    this.#last = [];
  }

  /** The end of what was printed on stderr, for messages; empty when nothing was. */
  get tail(): string {
    return this.#last.join(' | ').slice(0, 500);
  }

  line(stream: 'stdout' | 'stderr', line: string): void {
    if (stream === 'stderr') {
      this.#last.push(line);
      if (this.#last.length > 3) this.#last.shift();
    }
    this.log(stream === 'stdout' ? 'info' : 'warn', stream, line);
  }

  log(level: Level, stream: 'stdout' | 'stderr' | 'log', message: string, fields?: Readonly<Record<string, unknown>>): void {
    if (!workerLog.active) return;
    const { name, version } = this.#spec;
    workerLog.publish({
      model: name,
      version,
      workerId: this.#workerId,
      level,
      stream,
      message,
      ...(fields === undefined ? {} : { fields }),
    });
  }
}
