import type { ErrorCode, ServeError } from '../../domain/errors.js';

export interface ErrorRow {
  readonly status: number;
  /** The exception name that TorchServe's clients know. */
  readonly type: string;
}

/** Status and type of every error on the TorchServe paths; a missing row does not compile. */
const rows: Record<ErrorCode, ErrorRow> = {
  BAD_REQUEST: { status: 400, type: 'BadRequestException' },
  INVALID_PATH: { status: 400, type: 'BadRequestException' },
  PAYLOAD_TOO_LARGE: { status: 413, type: 'PayloadTooLargeException' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, type: 'UnsupportedMediaTypeException' },
  RESOURCE_NOT_FOUND: { status: 404, type: 'ResourceNotFoundException' },
  MODEL_NOT_FOUND: { status: 404, type: 'ModelNotFoundException' },
  MODEL_VERSION_NOT_FOUND: { status: 404, type: 'ModelVersionNotFoundException' },
  WORKFLOW_NOT_FOUND: { status: 404, type: 'WorkflowNotFoundException' },
  METHOD_NOT_ALLOWED: { status: 405, type: 'MethodNotAllowedException' },
  CONFLICT: { status: 409, type: 'ConflictStatusException' },
  INVALID_MODEL: { status: 400, type: 'InvalidModelException' },
  INVALID_WORKFLOW: { status: 400, type: 'InvalidWorkflowException' },
  INVALID_DAG: { status: 400, type: 'InvalidDAGException' },
  DOWNLOAD_FAILED: { status: 400, type: 'DownloadArchiveException' },
  // A URL outside allowed_urls looks to clients like an archive that does not exist.
  NOT_ALLOWED: { status: 404, type: 'ModelNotFoundException' },
  INVALID_MODEL_VERSION: { status: 403, type: 'InvalidModelVersionException' },
  UNAUTHORIZED: { status: 400, type: 'InvalidKeyException' },
  MODEL_NOT_READY: { status: 503, type: 'ServiceUnavailableException' },
  QUEUE_FULL: { status: 503, type: 'ServiceUnavailableException' },
  SEQUENCE_ENDED: { status: 503, type: 'ServiceUnavailableException' },
  OVERLOADED: { status: 503, type: 'ServiceUnavailableException' },
  DRAINING: { status: 503, type: 'ServiceUnavailableException' },
  // Nobody is left to read it; the status is for logs and metrics.
  CANCELLED: { status: 499, type: 'ClientClosedRequestException' },
  DEADLINE_EXCEEDED: { status: 504, type: 'DeadlineExceededException' },
  RESPONSE_TIMEOUT: { status: 500, type: 'InternalServerException' },
  WORKER_DIED: { status: 500, type: 'InternalServerException' },
  WORKER_START_FAILED: { status: 500, type: 'InternalServerException' },
  HANDLER_FAILED: { status: 500, type: 'InternalServerException' },
  PREDICTION_ERROR: { status: 500, type: 'InternalServerException' },
  OUT_OF_MEMORY: { status: 507, type: 'InternalServerException' },
  RESPONSE_TOO_LARGE: { status: 500, type: 'InternalServerException' },
  NOT_IMPLEMENTED: { status: 501, type: 'NotImplementedException' },
  REQUEST_TIMEOUT: { status: 408, type: 'RequestTimeoutException' },
  INTERNAL: { status: 500, type: 'InternalServerException' },
};

/** Row of an error; the status that a handler chose beats the table's. */
export function torchServeError(error: ServeError): ErrorRow {
  const row = rows[error.code];
  if (error.code !== 'PREDICTION_ERROR' || error.status === undefined) return row;
  return { status: error.status, type: row.type };
}
