import autocannon from 'autocannon';
import type { Workload } from './workloads.js';

export interface Measured {
  readonly requestsPerSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Answers that were no success, and requests without one. */
  readonly failed: number;
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** Closed loop: each connection sends its next request when it has the answer. */
export async function closedLoop(url: string, workload: Workload, connections: number, seconds: number): Promise<Measured> {
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    method: 'POST',
    headers: { 'content-type': workload.contentType },
    requests: workload.bodies.map((body) => ({ body })),
  });
  return {
    requestsPerSecond: result['2xx'] / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    failed: result.non2xx + result.errors + result.timeouts,
    statuses: Object.fromEntries(Object.entries(result.statusCodeStats ?? {}).map(([status, { count }]) => [status, count])),
  };
}
