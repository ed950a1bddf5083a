export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

export const logLevels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
/** `server`: what the server says. `access`: a line for each request. `model`: what workers and handlers say. */
export const logCategories = ['server', 'access', 'model'] as const;
export type LogCategory = (typeof logCategories)[number];

/** The least important lines that each log has, and whether the access log has the probes that succeed. */
export type LogSettings = Readonly<Record<LogCategory, LogLevel>> & { readonly accessProbes: boolean };

/** Log settings of a running server: whoever logs looks here, and they can be changed at any time. */
export class LogLevels {
  #settings: LogSettings;
  readonly #watchers = new Set<() => void>();

  constructor(settings: LogSettings) {
    this.#settings = settings;
  }

  get settings(): LogSettings {
    return this.#settings;
  }

  change(change: Partial<LogSettings>): void {
    this.#settings = { ...this.#settings, ...change };
    for (const watcher of this.#watchers) watcher();
  }

  /** @returns a function that ends the watching */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }
}
