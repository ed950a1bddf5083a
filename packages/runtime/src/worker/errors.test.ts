import { PredictionError } from '@onnxserve/handler-kit';
import { describe, expect, it } from 'vitest';
import { type Stage, stackOf, textOf, toWireError } from './errors.js';

const wire = (thrown: unknown, stage: Stage = 'preprocess') => toWireError(thrown, stage, 'm');

describe('what a client is told', () => {
  it('is the message of a PredictionError', () => {
    expect(wire(new PredictionError('no face', 422))).toEqual({
      wire: { code: 'PREDICTION_ERROR', message: 'no face', status: 422, reason: 'bad-input' },
      bug: false,
    });
    expect(wire(new PredictionError('later', 503)).bug).toBe(true);
  });

  it.each([new Error('secret /etc/passwd'), 'secret', undefined, null, 5, Object.create(null) as object, Symbol('secret')])(
    'is nothing of a bug: %#',
    (thrown) => {
      const { wire: told, bug } = wire(thrown, 'postprocess');
      expect(bug).toBe(true);
      expect(told).toMatchObject({ code: 'HANDLER_FAILED', reason: 'handler-error' });
      expect(told.message).toContain('postprocess');
      expect(told.message).not.toContain('secret');
    },
  );

  it.each(['std::bad_alloc', 'CUDA out of memory', 'BFCArena::AllocateRawInternal', 'Array buffer allocation failed'])(
    'is that memory ran out: %s',
    (message) => expect(wire(new Error(message), 'inference').wire.code).toBe('OUT_OF_MEMORY'),
  );

  it('is a bad request when the engine refuses values, but not when a handler says so', () => {
    const error = new Error('idx=9 must be within the inclusive range, indices element out of data bounds\nmore');
    expect(wire(error, 'inference').wire).toMatchObject({ code: 'PREDICTION_ERROR', status: 400, reason: 'bad-input' });
    expect(wire(error, 'inference').wire.message).not.toContain('more');
    expect(wire(error, 'preprocess').wire.code).toBe('HANDLER_FAILED');
  });
});

describe('what the log is told', () => {
  it('has the stacks of the causes', () => {
    const shown = stackOf(new Error('outer', { cause: new TypeError('inner') }));
    expect(shown).toMatch(/Error: outer[^]*Caused by: TypeError: inner/);
  });

  it('ends where causes go round in a circle', () => {
    const error = new Error('a');
    error.cause = error;
    expect(stackOf(error).split('Caused by').length).toBeLessThan(20);
  });

  it('takes anything', () => {
    const hostile = new Error('x');
    Object.defineProperty(hostile, 'stack', {
      get: () => {
        throw new Error('no stack for you');
      },
    });
    expect(stackOf(hostile)).toBe('x');
    expect(stackOf('text')).toContain('text');
    expect(textOf(Object.create(null))).toContain('object');
  });
});
