import { PredictionError } from '@onnxserve/handler-kit';
import type { WireError } from '../ipc/messages.js';

export type Stage = 'preprocess' | 'inference' | 'postprocess' | 'encode' | 'handle' | 'describe';

const outOfMemory =
  /out of memory|bad_alloc|failed to allocate memory|BFCArena|CUDA(?: error| failure)? ?(?:2\b|out)|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED|Array buffer allocation failed|MemoryError/i;
/** What the engine says when values, not shapes, are wrong. */
const badValues =
  /out of data bounds|INVALID_ARGUMENT|Got invalid dimensions|cannot be reshaped|index(?:es)? .*out of (?:range|bounds)/i;

/** The handler returned another number of results than it got requests. Its message is meant for clients. */
export class WrongLengthError extends Error {
  constructor(model: string, stage: 'inference' | 'handle' | 'step', wanted: number, got: unknown) {
    const what = Array.isArray(got) ? `${got.length}` : `${got === null ? 'null' : typeof got} instead of a list`;
    super(
      `The handler of model "${model}" must return one result for each request from ${stage}(): expected ${wanted}, got ${what}.`,
    );
  }
}

/** How an error of a stage is told to the client, and whether the log needs its stack. */
export function toWireError(thrown: unknown, stage: Stage, model: string): { wire: WireError; bug: boolean } {
  if (thrown instanceof PredictionError) {
    const { message, status, reason } = thrown;
    return { wire: { code: 'PREDICTION_ERROR', message, status, reason }, bug: status >= 500 && status !== 501 };
  }
  if (thrown instanceof WrongLengthError) {
    return { wire: { code: 'HANDLER_FAILED', message: thrown.message, reason: 'handler-error' }, bug: true };
  }
  const message = textOf(thrown);
  if (outOfMemory.test(message)) {
    return {
      wire: {
        code: 'OUT_OF_MEMORY',
        message: `Model "${model}" ran out of memory in ${stage}. Send a smaller input, lower batchSize, or give the model more memory.`,
        reason: 'device-out-of-memory',
      },
      bug: true,
    };
  }
  if (stage === 'inference' && badValues.test(message)) {
    return {
      wire: {
        code: 'PREDICTION_ERROR',
        status: 400,
        reason: 'bad-input',
        message: `Model "${model}" cannot take these values: ${firstLine(message)}`,
      },
      bug: false,
    };
  }
  return {
    wire: {
      code: 'HANDLER_FAILED',
      message: `The handler of model "${model}" failed in ${stage}. The model log has the stack.`,
      reason: 'handler-error',
    },
    bug: true,
  };
}

function firstLine(text: string): string {
  return (text.split('\n', 1)[0] ?? '').slice(0, 300);
}

/** What was thrown, in words; it may be anything, and need not even have a string form. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return `a thrown ${typeof thrown} without a string form`;
  }
}

/** The stack with those of the causes, for the log. */
export function stackOf(thrown: unknown, depth = 0): string {
  if (!(thrown instanceof Error)) return `${textOf(thrown)}, which is not an Error`;
  let own: string;
  try {
    // Made when it is first asked for, and that may throw as well.
    own = String(thrown.stack ?? thrown);
  } catch {
    own = textOf(thrown);
  }
  return thrown.cause instanceof Error && depth < 10 ? `${own}\nCaused by: ${stackOf(thrown.cause, depth + 1)}` : own;
}

/** The handler waits for something that never comes. @param limit seconds */
export function hung(model: string, limit: number): WireError {
  return {
    code: 'RESPONSE_TIMEOUT',
    message: `The handler of model "${model}" gave no answer within ${limit} s (responseTimeout).`,
  };
}

/** Nobody waits for the answer any more. */
export function unwanted(expired: boolean): WireError {
  return expired
    ? { code: 'DEADLINE_EXCEEDED', message: 'The request expired before it was answered.' }
    : { code: 'CANCELLED', message: 'The client closed the connection before the answer was ready.' };
}

export function tooLarge(bytes: number, limit: number): WireError {
  return {
    code: 'RESPONSE_TOO_LARGE',
    message: `The answer has ${bytes} bytes, the limit is ${limit} (max_response_size in config.properties).`,
  };
}
