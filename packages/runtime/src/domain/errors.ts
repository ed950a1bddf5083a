/** Every way a request or a command can fail. One table per protocol family maps these to statuses. */
export type ErrorCode =
  | 'BAD_REQUEST'
  | 'INVALID_PATH'
  | 'PAYLOAD_TOO_LARGE'
  | 'UNSUPPORTED_MEDIA_TYPE'
  | 'RESOURCE_NOT_FOUND'
  | 'MODEL_NOT_FOUND'
  | 'MODEL_VERSION_NOT_FOUND'
  | 'WORKFLOW_NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'CONFLICT'
  | 'INVALID_MODEL'
  | 'INVALID_WORKFLOW'
  | 'INVALID_DAG'
  | 'DOWNLOAD_FAILED'
  | 'NOT_ALLOWED'
  | 'INVALID_MODEL_VERSION'
  | 'UNAUTHORIZED'
  | 'MODEL_NOT_READY'
  | 'QUEUE_FULL'
  | 'OVERLOADED'
  | 'SEQUENCE_ENDED'
  | 'DRAINING'
  | 'CANCELLED'
  | 'DEADLINE_EXCEEDED'
  | 'RESPONSE_TIMEOUT'
  | 'WORKER_DIED'
  | 'WORKER_START_FAILED'
  | 'HANDLER_FAILED'
  | 'PREDICTION_ERROR'
  | 'OUT_OF_MEMORY'
  | 'RESPONSE_TOO_LARGE'
  | 'NOT_IMPLEMENTED'
  | 'REQUEST_TIMEOUT'
  | 'INTERNAL';

/** Stable ids that errors, metrics and doctor share. */
export type Reason =
  | 'bad-input'
  | 'input-too-large'
  | 'not-found'
  | 'unauthorized'
  | 'conflict'
  | 'archive-broken'
  | 'not-ready'
  | 'draining'
  | 'cancelled'
  | 'workers-starting'
  | 'workers-too-few'
  | 'queue-full'
  | 'memory-full'
  | 'too-many-sequences'
  | 'sequence-queue-full'
  | 'sequence-expired'
  | 'sequence-lost'
  | 'queue-timeout'
  | 'response-timeout'
  | 'worker-died'
  | 'handler-error'
  | 'device-out-of-memory'
  | 'host-out-of-memory'
  | 'serialisation-bound'
  | 'provider-missing'
  | 'not-implemented'
  | 'internal'
  | (string & {});

const defaultReason: Record<ErrorCode, Reason> = {
  BAD_REQUEST: 'bad-input',
  INVALID_PATH: 'bad-input',
  PAYLOAD_TOO_LARGE: 'input-too-large',
  UNSUPPORTED_MEDIA_TYPE: 'bad-input',
  RESOURCE_NOT_FOUND: 'not-found',
  MODEL_NOT_FOUND: 'not-found',
  MODEL_VERSION_NOT_FOUND: 'not-found',
  WORKFLOW_NOT_FOUND: 'not-found',
  METHOD_NOT_ALLOWED: 'bad-input',
  CONFLICT: 'conflict',
  INVALID_MODEL: 'archive-broken',
  INVALID_WORKFLOW: 'archive-broken',
  INVALID_DAG: 'archive-broken',
  DOWNLOAD_FAILED: 'archive-broken',
  NOT_ALLOWED: 'unauthorized',
  INVALID_MODEL_VERSION: 'bad-input',
  UNAUTHORIZED: 'unauthorized',
  MODEL_NOT_READY: 'not-ready',
  QUEUE_FULL: 'queue-full',
  OVERLOADED: 'memory-full',
  SEQUENCE_ENDED: 'sequence-lost',
  DRAINING: 'draining',
  CANCELLED: 'cancelled',
  DEADLINE_EXCEEDED: 'queue-timeout',
  RESPONSE_TIMEOUT: 'response-timeout',
  WORKER_DIED: 'worker-died',
  WORKER_START_FAILED: 'workers-starting',
  HANDLER_FAILED: 'handler-error',
  PREDICTION_ERROR: 'handler-error',
  OUT_OF_MEMORY: 'device-out-of-memory',
  RESPONSE_TOO_LARGE: 'serialisation-bound',
  NOT_IMPLEMENTED: 'not-implemented',
  REQUEST_TIMEOUT: 'response-timeout',
  INTERNAL: 'internal',
};

export interface ServeErrorOptions {
  reason?: Reason;
  cause?: unknown;
  /** HTTP status that the handler chose; only with PREDICTION_ERROR. */
  status?: number;
  /** Seconds after which a retry makes sense. */
  retryAfter?: number;
}

/** The one error of the runtime. The message goes to clients; the cause only to logs. */
export class ServeError extends Error {
  override readonly name = 'ServeError';
  readonly code: ErrorCode;
  readonly reason: Reason;
  readonly status: number | undefined;
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, options: ServeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.reason = options.reason ?? defaultReason[code];
    this.status = options.status;
    this.retryAfter = options.retryAfter;
  }
}

/** Anything thrown, as a ServeError; what is not one yet becomes INTERNAL with itself as the cause. */
export function toServeError(thrown: unknown): ServeError {
  if (thrown instanceof ServeError) return thrown;
  return new ServeError('INTERNAL', 'Internal error; the log has the details.', { cause: thrown });
}
