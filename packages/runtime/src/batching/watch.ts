import { ServeError } from '../domain/errors.js';
import { monotonicNow } from '../domain/request.js';
import type { Job } from './job.js';

/** The longest a timer can hold, milliseconds. A longer one would fire at once. */
export const LONGEST_TIMER = 2_147_483_647;

/** Tells when a job's client leaves or its deadline passes, wherever the job is, until the job is answered. */
export function watch(job: Job, abandon: (job: Job, error: ServeError) => void): void {
  const { client } = job.request;
  const leave = () => abandon(job, new ServeError('CANCELLED', 'The client closed the connection before the answer was ready.'));
  if (client !== undefined) {
    if (client.gone) {
      leave();
      return;
    }
    client.onGone = leave;
  }
  let timer: NodeJS.Timeout | undefined;
  const { deadline } = job;
  if (deadline !== undefined) {
    const check = () => {
      const left = (deadline - monotonicNow()) / 1e6;
      // A timer counts whole milliseconds and may come up to one too early.
      if (left < 1) abandon(job, expired(job));
      else timer = setTimeout(check, Math.min(left, LONGEST_TIMER));
    };
    timer = setTimeout(check, Math.min(Math.max(0, (deadline - monotonicNow()) / 1e6), LONGEST_TIMER));
  }
  job.unwatch = () => {
    job.unwatch = undefined;
    if (client !== undefined) client.onGone = undefined;
    clearTimeout(timer);
  };
}

function expired(job: Job): ServeError {
  const waited = Math.round((monotonicNow() - job.enqueuedAt) / 1e6);
  const where = job.state.at === 'queue' ? 'in the queue' : 'at a worker';
  return new ServeError(
    'DEADLINE_EXCEEDED',
    `The request expired ${where} after ${waited} ms (clientTimeoutInMills or the request's deadline).`,
  );
}
