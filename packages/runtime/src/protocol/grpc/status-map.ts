import { status as grpcStatus } from '@grpc/grpc-js';
import type { ErrorCode, ServeError } from '../../domain/errors.js';

export { grpcStatus };

type GrpcStatusName = keyof typeof grpcStatus;

/** Status of every error; a missing row does not compile. UNAVAILABLE is what a client may simply try again. */
const rows: Record<ErrorCode, GrpcStatusName> = {
  BAD_REQUEST: 'INVALID_ARGUMENT',
  INVALID_PATH: 'INVALID_ARGUMENT',
  PAYLOAD_TOO_LARGE: 'RESOURCE_EXHAUSTED',
  UNSUPPORTED_MEDIA_TYPE: 'INVALID_ARGUMENT',
  RESOURCE_NOT_FOUND: 'NOT_FOUND',
  MODEL_NOT_FOUND: 'NOT_FOUND',
  MODEL_VERSION_NOT_FOUND: 'NOT_FOUND',
  WORKFLOW_NOT_FOUND: 'NOT_FOUND',
  METHOD_NOT_ALLOWED: 'PERMISSION_DENIED',
  CONFLICT: 'ALREADY_EXISTS',
  INVALID_MODEL: 'INVALID_ARGUMENT',
  INVALID_WORKFLOW: 'INVALID_ARGUMENT',
  INVALID_DAG: 'INVALID_ARGUMENT',
  DOWNLOAD_FAILED: 'INVALID_ARGUMENT',
  NOT_ALLOWED: 'INVALID_ARGUMENT',
  INVALID_MODEL_VERSION: 'FAILED_PRECONDITION',
  // TorchServe's clients look for this one, whether the token is missing or wrong.
  UNAUTHORIZED: 'PERMISSION_DENIED',
  MODEL_NOT_READY: 'UNAVAILABLE',
  QUEUE_FULL: 'UNAVAILABLE',
  // Not to be repeated alone: the client begins its sequence anew.
  SEQUENCE_ENDED: 'ABORTED',
  OVERLOADED: 'UNAVAILABLE',
  DRAINING: 'UNAVAILABLE',
  CANCELLED: 'CANCELLED',
  DEADLINE_EXCEEDED: 'DEADLINE_EXCEEDED',
  // The model's limit, not the client's: it was not the call's deadline that passed.
  RESPONSE_TIMEOUT: 'INTERNAL',
  WORKER_DIED: 'INTERNAL',
  WORKER_START_FAILED: 'INTERNAL',
  HANDLER_FAILED: 'INTERNAL',
  PREDICTION_ERROR: 'INTERNAL',
  OUT_OF_MEMORY: 'RESOURCE_EXHAUSTED',
  RESPONSE_TOO_LARGE: 'RESOURCE_EXHAUSTED',
  NOT_IMPLEMENTED: 'UNIMPLEMENTED',
  REQUEST_TIMEOUT: 'DEADLINE_EXCEEDED',
  INTERNAL: 'INTERNAL',
};

/** Status of an error; the HTTP status that a handler chose beats the table's. */
export function grpcStatusOf(error: ServeError): grpcStatus {
  if (error.code === 'PREDICTION_ERROR' && error.status !== undefined) return grpcStatusOfHttp(error.status);
  // A url may be refused as if it led nowhere; here that is a mistake in the argument.
  if (error.reason === 'url-not-allowed') return grpcStatus.INVALID_ARGUMENT;
  return grpcStatus[rows[error.code]];
}

const byHttpStatus: Readonly<Record<number, GrpcStatusName>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED',
  412: 'FAILED_PRECONDITION',
  413: 'RESOURCE_EXHAUSTED',
  416: 'OUT_OF_RANGE',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  501: 'UNIMPLEMENTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  507: 'RESOURCE_EXHAUSTED',
};

/** The status that means what an HTTP status means. */
export function grpcStatusOfHttp(status: number): grpcStatus {
  const named = byHttpStatus[status];
  if (named !== undefined) return grpcStatus[named];
  if (status >= 200 && status < 300) return grpcStatus.OK;
  if (status >= 400 && status < 500) return grpcStatus.INVALID_ARGUMENT;
  return status >= 500 ? grpcStatus.INTERNAL : grpcStatus.UNKNOWN;
}
