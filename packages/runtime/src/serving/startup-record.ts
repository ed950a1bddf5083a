import { ServeError, toServeError } from '../domain/errors.js';
import type { ServedModel } from './served-model.js';

interface NotRegistered {
  readonly url: string;
  readonly model: string;
  readonly reason: string;
  readonly message: string;
}

/** What is known of the models that a start loads. */
export class StartupRecord {
  /** Those that could not even be registered: a server without them must not look fine. */
  readonly notRegistered: NotRegistered[] = [];
  /** The start-up models are being loaded. */
  running = false;

  failed({ url, modelName }: { readonly url: string; readonly modelName: string | undefined }, thrown: unknown): void {
    const { reason, message } = toServeError(thrown);
    this.notRegistered.push({ url, model: modelName ?? url, reason, message: `${url}: ${message}` });
  }

  /**
   * A request during the start: who is not there may be one of the models that are being unpacked.
   * @throws {ServeError} MODEL_NOT_READY
   */
  check(name: string, model: ServedModel | undefined): void {
    // A worker may be missing while others serve; what was registered by a call is waited for, as ever.
    if (model !== undefined && (!model.loadedAtStartup || model.hasServed || model.pool.ready > 0)) return;
    throw new ServeError('MODEL_NOT_READY', `Model "${name}" is not loaded yet: the server is starting.`, {
      reason: 'workers-starting',
      retryAfter: 1,
    });
  }
}
