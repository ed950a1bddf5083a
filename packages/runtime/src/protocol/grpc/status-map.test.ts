import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { type ErrorCode, ServeError } from '../../domain/errors.js';
import { grpcStatusOf, grpcStatusOfHttp } from './status-map.js';

it.each<[ErrorCode, status]>([
  ['BAD_REQUEST', status.INVALID_ARGUMENT],
  ['MODEL_NOT_FOUND', status.NOT_FOUND],
  ['CONFLICT', status.ALREADY_EXISTS],
  ['UNAUTHORIZED', status.PERMISSION_DENIED],
  ['METHOD_NOT_ALLOWED', status.PERMISSION_DENIED],
  ['QUEUE_FULL', status.UNAVAILABLE],
  ['MODEL_NOT_READY', status.UNAVAILABLE],
  ['DRAINING', status.UNAVAILABLE],
  ['DEADLINE_EXCEEDED', status.DEADLINE_EXCEEDED],
  ['RESPONSE_TIMEOUT', status.INTERNAL],
  ['PAYLOAD_TOO_LARGE', status.RESOURCE_EXHAUSTED],
])('%s', (code, expected) => expect(grpcStatusOf(new ServeError(code, 'x'))).toBe(expected));

it('the status that a handler chose counts, and only with its error', () => {
  expect(grpcStatusOf(new ServeError('PREDICTION_ERROR', 'x', { status: 404 }))).toBe(status.NOT_FOUND);
  expect(grpcStatusOf(new ServeError('PREDICTION_ERROR', 'x'))).toBe(status.INTERNAL);
  expect(grpcStatusOf(new ServeError('BAD_REQUEST', 'x', { status: 500 }))).toBe(status.INVALID_ARGUMENT);
});

it.each([
  [200, status.OK],
  [299, status.OK],
  [300, status.UNKNOWN],
  [400, status.INVALID_ARGUMENT],
  [409, status.ABORTED],
  [418, status.INVALID_ARGUMENT],
  [500, status.INTERNAL],
  [503, status.UNAVAILABLE],
  [599, status.INTERNAL],
])('HTTP %i', (http, expected) => expect(grpcStatusOfHttp(http)).toBe(expected));
