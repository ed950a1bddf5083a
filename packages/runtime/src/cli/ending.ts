import type { RunningServer } from '../server.js';
import { removePid } from './pid-file.js';
import type { ServiceNotify } from './service-notify.js';

/** A second signal within this time is the same Ctrl-C that reached the process twice. */
const SAME_SIGNAL_MS = 200;

/** Exit codes of a server; a supervisor with `Restart=on-failure` starts it again after every one but the first. */
export const exitCodes = {
  /** Everything that was accepted has been answered. */
  complete: 0,
  /** `shutdown_timeout` or a second signal cut something, or the server could not start. */
  cut: 1,
  /** A model with `onLoadFailure: exit` cannot be loaded. */
  modelFailed: 3,
} as const;

/** How a server that runs in the foreground ends. */
export class Ending {
  readonly #notify: ServiceNotify;
  #server: RunningServer | undefined;
  #reason: string | undefined;
  #since: number | undefined;

  constructor(notify: ServiceNotify) {
    this.#notify = notify;
  }

  watch(server: RunningServer): void {
    this.#server = server;
    process.on('SIGTERM', () => this.#signalled());
    process.on('SIGINT', () => this.#signalled());
    // In a terminal it says that the terminal is gone; elsewhere it is what log rotation sends.
    process.on('SIGHUP', () => (process.stdin.isTTY ? this.#signalled() : server.reopenLogs()));
    if (this.#reason !== undefined) this.failed(this.#reason);
  }

  /** The server ends by itself, after what it has accepted. */
  failed(reason: string): void {
    this.#reason ??= reason;
    if (this.#server !== undefined && this.#since === undefined) this.#stop(this.#server);
  }

  #signalled(): void {
    const server = this.#server;
    if (server === undefined) return;
    if (this.#since === undefined) return this.#stop(server);
    if (Date.now() - this.#since <= SAME_SIGNAL_MS) return;
    const cut = [...server.models.pending()].map(([model, count]) => `${count} request(s) of model "${model}"`);
    console.error(`ended by a second signal; cut: ${cut.length === 0 ? 'nothing' : cut.join(', ')}`);
    exit(exitCodes.cut);
  }

  #stop(server: RunningServer): void {
    this.#since = Date.now();
    this.#notify.stopping();
    server.close().then(
      (cut) => {
        for (const what of cut) console.error(`cut by the shutdown: ${what}`);
        exit(this.#reason !== undefined ? exitCodes.modelFailed : cut.length > 0 ? exitCodes.cut : exitCodes.complete);
      },
      (error: unknown) => {
        console.error(error);
        exit(exitCodes.cut);
      },
    );
  }
}

function exit(code: number): never {
  removePid(process.pid);
  process.exit(code);
}
