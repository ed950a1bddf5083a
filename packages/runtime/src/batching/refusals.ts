import { ServeError } from '../domain/errors.js';

interface Limits {
  readonly model: string;
  readonly version: string;
  readonly jobQueueSize: number;
}

export function ticketless({ model, version }: Limits): ServeError {
  return new ServeError(
    'QUEUE_FULL',
    `Model "${model}" version ${version} has no free worker and useJobTicket accepts no waiting requests.`,
    { retryAfter: 1 },
  );
}

export function queueFull({ model, version, jobQueueSize }: Limits, waiting: number): ServeError {
  return new ServeError(
    'QUEUE_FULL',
    `The queue of model "${model}" version ${version} is full: ${waiting} requests wait, the limit is ${jobQueueSize} (jobQueueSize in model-config.yaml, job_queue_size in config.properties).`,
    { retryAfter: 1 },
  );
}
