import { spawn } from 'node:child_process';

export interface NotifyOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly pid: number;
  readonly warn: (sentence: string) => void;
  /** Sends one notification; calls back with what went wrong. */
  readonly send?: (fields: readonly string[], failed: (why: string) => void) => void;
}

/**
 * Tells systemd how the service is (`Type=notify`, `WatchdogSec=`). Its socket takes datagrams, which Node cannot send, so the program
 * `systemd-notify` sends them; the unit needs `NotifyAccess=all` for that. Without `NOTIFY_SOCKET` nothing happens.
 */
export class ServiceNotify {
  readonly #options: NotifyOptions;
  readonly #on: boolean;
  #timer: NodeJS.Timeout | undefined;
  #warned = false;

  constructor(options: NotifyOptions) {
    this.#options = options;
    this.#on = (options.env['NOTIFY_SOCKET'] ?? '') !== '';
  }

  /**
   * The start-up is over: whoever waits for the service goes on.
   * @param alive false: the front cannot serve, so the watchdog hears nothing and ends it
   */
  ready(status: string, alive: () => boolean): void {
    if (!this.#on) return;
    this.#say('READY=1', `MAINPID=${this.#options.pid}`, `STATUS=${status}`);
    const period = watchdogPeriod(this.#options.env, this.#options.pid);
    if (period === undefined) return;
    this.#timer = setInterval(() => {
      if (alive()) this.#say('WATCHDOG=1');
    }, period);
    this.#timer.unref();
  }

  /** The watchdog goes on: a shutdown that hangs is ended by `TimeoutStopSec`, not by it. */
  stopping(): void {
    if (this.#on) this.#say('STOPPING=1', 'STATUS=accepted requests finish');
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #say(...fields: string[]): void {
    const { env, warn } = this.#options;
    const failed = (why: string) => {
      if (!this.#warned)
        warn(
          `systemd waits for notifications (Type=notify) and cannot be told: ${why}. Install systemd-notify, or use Type=exec.`,
        );
      this.#warned = true;
    };
    (this.#options.send ?? ((all, report) => runNotify(all, env, report)))(fields, failed);
  }
}

/** Milliseconds between two signs of life: half of what systemd waits for. Undefined: no watchdog for this process. */
export function watchdogPeriod(env: NodeJS.ProcessEnv, pid: number): number | undefined {
  const microseconds = Number(env['WATCHDOG_USEC'] ?? '');
  const meant = env['WATCHDOG_PID'];
  if (!Number.isFinite(microseconds) || microseconds <= 0 || (meant !== undefined && Number(meant) !== pid)) return undefined;
  return Math.max(10, Math.floor(microseconds / 2000));
}

function runNotify(fields: readonly string[], env: NodeJS.ProcessEnv, failed: (why: string) => void): void {
  const child = spawn('systemd-notify', [...fields], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (text += piece.slice(0, 500)));
  child.on('error', (error) => failed(error.message));
  child.on('close', (code) => {
    if (code !== 0 && code !== null && code > 0) failed(text.trim() === '' ? `systemd-notify ended with ${code}` : text.trim());
  });
  child.unref();
}
