import { expect, it } from 'vitest';
import { type ErrorCode, ServeError } from '../../domain/errors.js';
import { torchServeError } from './status-map.js';

it.each<[ErrorCode, number, string]>([
  ['MODEL_NOT_FOUND', 404, 'ModelNotFoundException'],
  ['MODEL_VERSION_NOT_FOUND', 404, 'ModelVersionNotFoundException'],
  ['NOT_ALLOWED', 404, 'ModelNotFoundException'],
  ['CONFLICT', 409, 'ConflictStatusException'],
  ['INVALID_MODEL_VERSION', 403, 'InvalidModelVersionException'],
  ['QUEUE_FULL', 503, 'ServiceUnavailableException'],
  ['OUT_OF_MEMORY', 507, 'InternalServerException'],
  ['DEADLINE_EXCEEDED', 504, 'DeadlineExceededException'],
])('%s is %d %s', (code, status, type) => {
  expect(torchServeError(new ServeError(code, 'x'))).toEqual({ status, type });
});

it('lets the handler alone choose another status', () => {
  expect(torchServeError(new ServeError('PREDICTION_ERROR', 'x', { status: 418 })).status).toBe(418);
  expect(torchServeError(new ServeError('PREDICTION_ERROR', 'x')).status).toBe(500);
  expect(torchServeError(new ServeError('INTERNAL', 'x', { status: 200 })).status).toBe(500);
});
