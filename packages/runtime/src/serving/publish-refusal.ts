import { requestEnded } from '../domain/events.js';
import type { ServeError } from '../domain/errors.js';
import type { PredictRequest } from '../domain/request.js';

/** A request that reached no queue is counted all the same. @param model what it was for, as far as that is known */
export function publishRefusal(
  { id, modelVersion }: Pick<PredictRequest, 'id' | 'modelVersion'>,
  model: { readonly name: string; readonly version: string } | undefined,
  error: ServeError,
): void {
  requestEnded.publish({
    model: model?.name ?? '',
    version: model?.version ?? '',
    requestedVersion: modelVersion,
    requestId: id,
    outcome: error.code,
    reason: error.reason,
    status: error.status,
    stages: undefined,
    totalNs: 0,
    batchSize: 0,
    workerId: undefined,
    responseBytes: 0,
  });
}
