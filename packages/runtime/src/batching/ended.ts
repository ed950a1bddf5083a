import type { ServeError } from '../domain/errors.js';
import { requestEnded } from '../domain/events.js';
import { monotonicNow, type PredictRequest, type StageTimes } from '../domain/request.js';

export interface End {
  readonly request: PredictRequest;
  /** When it came, monotonic nanoseconds. */
  readonly since: number;
  readonly error?: ServeError;
  readonly stages?: StageTimes | undefined;
  readonly batchSize?: number;
  readonly workerId?: string | undefined;
  readonly bytes?: number;
  readonly status?: number;
}

/** Tells metrics and logs how a request ended. */
export function publishEnd({ model, version }: { readonly model: string; readonly version: string }, end: End): void {
  const { request, error } = end;
  if (!requestEnded.active || request.kind === 'describe') return;
  requestEnded.publish({
    model,
    version,
    requestedVersion: request.modelVersion,
    requestId: request.id,
    outcome: error === undefined ? 'ok' : error.code,
    reason: error?.reason,
    status: end.status ?? error?.status,
    stages: end.stages,
    totalNs: monotonicNow() - end.since,
    batchSize: end.batchSize ?? 0,
    workerId: end.workerId,
    responseBytes: end.bytes ?? 0,
  });
}
