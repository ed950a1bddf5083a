const brand: unique symbol = Symbol.for('onnxserve.PredictionError') as never;

/**
 * An answer with an error status that is meant for the client: the message is sent as it stands.
 * Anything else that a handler throws is the handler's own bug: the client gets a 5xx without details
 * and the stack goes to the log.
 */
export class PredictionError extends Error {
  override readonly name = 'PredictionError';
  readonly status: number;
  /** Stable machine-readable cause, sent as `reason`; default `bad-input` below 500, else `handler-error`. */
  readonly reason: string;

  /**
   * @param status HTTP status of the answer, 400 to 599; anything else becomes 500
   */
  constructor(message: string, status = 500, options: { reason?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = Number.isInteger(status) && status >= 400 && status <= 599 ? status : 500;
    this.reason = options.reason ?? (this.status < 500 ? 'bad-input' : 'handler-error');
    Object.defineProperty(this, brand, { value: true });
  }

  /** True for the errors of any copy of this package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
}
