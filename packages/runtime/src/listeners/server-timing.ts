import type { StageTimes } from '../domain/request.js';

/** Nanoseconds as milliseconds with three decimals. */
function milliseconds(nanoseconds: number): string {
  const microseconds = nanoseconds <= 0 ? 0 : Math.round(nanoseconds / 1000);
  const whole = Math.floor(microseconds / 1000);
  const rest = microseconds - whole * 1000;
  return `${whole}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`;
}

/**
 * `Server-Timing` of an answer, in milliseconds. The total runs from the complete body to the answer, so that the
 * stages add up to it; the time the client took to send stands beside it as `receive`.
 */
export function serverTiming(stages: StageTimes | undefined, totalNs: number, receiveNs: number): string {
  const tail = `total;dur=${milliseconds(totalNs)}, receive;dur=${milliseconds(receiveNs)}`;
  if (stages === undefined) return tail;
  return (
    `queue;dur=${milliseconds(stages.queue)}, preprocess;dur=${milliseconds(stages.preprocess)}, ` +
    `wait;dur=${milliseconds(stages.wait)}, inference;dur=${milliseconds(stages.inference)}, ` +
    `postprocess;dur=${milliseconds(stages.postprocess)}, encode;dur=${milliseconds(stages.encode)}, ${tail}`
  );
}
