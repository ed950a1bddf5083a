/** What the decision needs to know of one worker. */
export interface SlotLoad {
  /** Items it holds. */
  readonly items: number;
}

export interface PolicyInput {
  readonly queued: number;
  /** Milliseconds that the oldest item has waited. */
  readonly oldestAge: number;
  readonly batchSize: number;
  /** Milliseconds; undefined: release at once when a worker can take it (adaptive). */
  readonly maxBatchDelay: number | undefined;
  /** The handler takes whole batches, so a batch handed over does not grow any more. */
  readonly wholeBatch: boolean;
  /** Batches beyond the running one that a worker may hold: 1, or 0 to keep the next one here. */
  readonly prefetch: 0 | 1;
  /** Items join and leave a running batch between its steps. */
  readonly continuous: boolean;
  readonly slots: readonly SlotLoad[];
}

export type Release = 'full' | 'delay' | 'idle' | 'prefetch' | 'join' | 'rerun';

export type Decision =
  /** Hand `count` items to `slots[slot]` and ask again. */
  | { readonly kind: 'dispatch'; readonly slot: number; readonly count: number; readonly release: Release }
  /** Ask again in so many milliseconds, or when something changes. */
  | { readonly kind: 'wait'; readonly ms: number }
  /** Nothing to do until something changes. */
  | { readonly kind: 'idle' };

/**
 * Which items go to which worker now.
 *
 * With a `maxBatchDelay` the meaning is TorchServe's: a batch leaves when it is full or when its oldest item has waited
 * that long, measured from its arrival. Without one a batch leaves as soon as a worker can take it; what comes meanwhile
 * joins it in the worker up to `batchSize`, so a busy worker runs full batches and an idle one never waits.
 *
 * What joins a running batch never waits, and nothing is handed over beyond `batchSize`: who joins is decided when there is room.
 */
export function decide(input: PolicyInput): Decision {
  if (input.queued === 0 || input.slots.length === 0) return { kind: 'idle' };
  let best = 0;
  for (let i = 1; i < input.slots.length; i++) if (input.slots[i]!.items < input.slots[best]!.items) best = i;
  const held = input.slots[best]!.items;
  const capacity = input.batchSize * (1 + (input.continuous ? 0 : input.prefetch));
  if (held >= capacity) return { kind: 'idle' };
  if (input.continuous && held > 0) {
    return { kind: 'dispatch', slot: best, count: Math.min(input.queued, capacity - held), release: 'join' };
  }

  const full = input.queued >= input.batchSize;
  if (input.batchSize === 1) {
    return { kind: 'dispatch', slot: best, count: 1, release: held === 0 ? 'full' : 'prefetch' };
  }
  const room = Math.min(input.queued, input.batchSize, capacity - held);
  if (input.maxBatchDelay === undefined) {
    // What does not fill a batch for every worker is shared among them, so that none idles while another has a queue.
    const count = Math.min(room, Math.ceil(input.queued / input.slots.length));
    if (held === 0) return { kind: 'dispatch', slot: best, count, release: count === input.batchSize ? 'full' : 'idle' };
    // A batch that cannot grow in the worker goes on growing here until it is full.
    if (input.wholeBatch && !(full && held + input.batchSize <= capacity)) return { kind: 'idle' };
    return { kind: 'dispatch', slot: best, count: input.wholeBatch ? room : count, release: 'prefetch' };
  }
  if (full) {
    if (held + input.batchSize > capacity) return { kind: 'idle' };
    return { kind: 'dispatch', slot: best, count: input.batchSize, release: held === 0 ? 'full' : 'prefetch' };
  }
  const left = input.maxBatchDelay - input.oldestAge;
  if (left > 0) return { kind: 'wait', ms: left };
  if (held > 0) return { kind: 'idle' };
  return { kind: 'dispatch', slot: best, count: room, release: 'delay' };
}
