import { totalmem } from 'node:os';

/** Bytes that this process may use: the machine's, cut by the limit of its control group. */
export function availableMemory(total = totalmem(), limit = process.constrainedMemory()): number {
  // 0 or a number beyond the machine: no limit.
  return limit === undefined || limit <= 0 ? total : Math.min(total, limit);
}
