import type { ServeError } from '../domain/errors.js';

/** Something that takes requests from the network. */
export interface Entrance {
  /** Says that it is not ready any more; requests are still taken. */
  drain(): void;
  /** Ends connections that wait for their next request; a balancer that still sends would meet their end. */
  closeIdle?(): void;
  /** Stops listening. @returns what was still open after so many milliseconds, and was cut */
  close(timeoutMs: number): Promise<number>;
}

export interface ShutdownParts {
  readonly http: Entrance;
  readonly grpc: Entrance;
  readonly models: {
    leave(): void;
    drain(): ServeError;
    close(timeoutMs: number): Promise<ReadonlyMap<string, number>>;
  };
  readonly workflows: { drain(reason: ServeError, timeoutMs: number): Promise<void> };
  /** What else has to end before the models do. */
  readonly before: () => Promise<void>;
  /** Seconds in which requests are still taken. */
  readonly grace: number;
  /** Seconds that accepted requests may take. */
  readonly timeout: number;
  readonly pause?: (ms: number) => Promise<void>;
  readonly now?: () => number;
}

/** Answers that are written already get a moment to be sent, however late it is. Milliseconds. */
const LEAST_SENDING_MS = 1_000;

/**
 * The order of a shutdown: readiness turns false, requests are taken a little longer, then refused; what was accepted finishes; the
 * listeners close.
 * @returns what did not finish in time, a phrase each; empty when nothing was lost
 */
export async function shutDown(parts: ShutdownParts): Promise<string[]> {
  const { http, grpc, models, workflows, grace, timeout } = parts;
  const now = parts.now ?? (() => performance.now());
  const pause = parts.pause ?? ((ms) => new Promise<void>((resolve) => setTimeout(resolve, ms)));
  models.leave();
  http.drain();
  grpc.drain();
  if (grace > 0) await pause(grace * 1000);
  http.closeIdle?.();
  const until = now() + timeout * 1000;
  const left = () => Math.max(0, until - now());
  await parts.before();
  await workflows.drain(models.drain(), left());
  const requests = await models.close(left());
  const sending = Math.max(LEAST_SENDING_MS, left());
  const [exchanges, calls] = await Promise.all([http.close(sending), grpc.close(sending)]);
  return [
    ...describeRequests(requests),
    ...(exchanges > 0 ? [`${exchanges} HTTP request(s)`] : []),
    ...(calls > 0 ? [`${calls} gRPC call(s)`] : []),
  ];
}

/** `3 request(s) of model "m"`, for each model. */
export function describeRequests(requests: ReadonlyMap<string, number>): string[] {
  return [...requests].map(([model, count]) => `${count} request(s) of model "${model}"`);
}
