import { describe, expect, it } from 'vitest';
import { type Decision, decide, type PolicyInput } from './policy.js';

const base: PolicyInput = {
  queued: 1,
  oldestAge: 0,
  batchSize: 4,
  maxBatchDelay: undefined,
  wholeBatch: false,
  prefetch: 1,
  continuous: false,
  slots: [{ items: 0 }],
};
const slots = (...items: number[]) => items.map((it) => ({ items: it }));

describe('adaptive release', () => {
  it.each<[string, Partial<PolicyInput>, Decision]>([
    ['nothing queued', { queued: 0 }, { kind: 'idle' }],
    ['no worker', { slots: [] }, { kind: 'idle' }],
    ['a lone item and a free worker', {}, { kind: 'dispatch', slot: 0, count: 1, release: 'idle' }],
    ['a full batch', { queued: 9 }, { kind: 'dispatch', slot: 0, count: 4, release: 'full' }],
    ['the worker with the least', { slots: slots(3, 1, 2) }, { kind: 'dispatch', slot: 1, count: 1, release: 'prefetch' }],
    ['every worker at its limit', { queued: 50, slots: slots(8, 9) }, { kind: 'idle' }],
    ['room for less than a batch', { queued: 9, slots: slots(6) }, { kind: 'dispatch', slot: 0, count: 2, release: 'prefetch' }],
    ['a ticket holder takes no second batch', { queued: 9, prefetch: 0, slots: slots(4) }, { kind: 'idle' }],
    ['a whole batch goes on growing here', { queued: 3, wholeBatch: true, slots: slots(1) }, { kind: 'idle' }],
    [
      'a whole batch is prefetched when it is full',
      { queued: 4, wholeBatch: true, slots: slots(4) },
      { kind: 'dispatch', slot: 0, count: 4, release: 'prefetch' },
    ],
  ])('%s', (_, input, decision) => {
    expect(decide({ ...base, ...input })).toEqual(decision);
  });
});

describe('an explicit delay', () => {
  it.each<[string, Partial<PolicyInput>, Decision]>([
    ['not over', { oldestAge: 30 }, { kind: 'wait', ms: 70 }],
    ['not over, however free the workers', { oldestAge: 99, slots: slots(0, 0) }, { kind: 'wait', ms: 1 }],
    ['over', { oldestAge: 100 }, { kind: 'dispatch', slot: 0, count: 1, release: 'delay' }],
    ['over while the worker is busy', { oldestAge: 500, slots: slots(1) }, { kind: 'idle' }],
    ['full before it is over', { queued: 5 }, { kind: 'dispatch', slot: 0, count: 4, release: 'full' }],
    ['full, one batch running', { queued: 4, slots: slots(4) }, { kind: 'dispatch', slot: 0, count: 4, release: 'prefetch' }],
    ['full, no room for a whole batch', { queued: 4, slots: slots(5) }, { kind: 'idle' }],
    ['of no use with batches of one', { batchSize: 1 }, { kind: 'dispatch', slot: 0, count: 1, release: 'full' }],
    ['of zero', { maxBatchDelay: 0 }, { kind: 'dispatch', slot: 0, count: 1, release: 'delay' }],
  ])('%s', (_, input, decision) => {
    expect(decide({ ...base, maxBatchDelay: 100, ...input })).toEqual(decision);
  });
});

/** Every combination of a small grid. */
function* grid(): Generator<PolicyInput> {
  const loads = [[], [0], [1], [4], [8], [0, 0], [0, 8], [3, 5], [8, 8], [7, 0, 1]];
  for (const batchSize of [1, 2, 4, 5])
    for (const queued of [0, 1, 2, 3, 4, 5, 9, 40])
      for (const maxBatchDelay of [undefined, 0, 100])
        for (const oldestAge of [0, 99, 100, 1000])
          for (const wholeBatch of [true, false])
            for (const prefetch of [0, 1] as const)
              for (const load of loads)
                for (const continuous of [true, false])
                  yield { batchSize, queued, maxBatchDelay, oldestAge, wholeBatch, prefetch, continuous, slots: slots(...load) };
}

describe('a continuous batch', () => {
  it.each<[string, Partial<PolicyInput>, Decision]>([
    ['is joined at once', { slots: slots(1) }, { kind: 'dispatch', slot: 0, count: 1, release: 'join' }],
    [
      'is joined without a delay',
      { maxBatchDelay: 100, slots: slots(2) },
      { kind: 'dispatch', slot: 0, count: 1, release: 'join' },
    ],
    ['is never overfilled', { queued: 9, slots: slots(3) }, { kind: 'dispatch', slot: 0, count: 1, release: 'join' }],
    ['has nobody wait in the worker', { queued: 9, slots: slots(4) }, { kind: 'idle' }],
    ['of one takes the next when the first is done', { batchSize: 1, slots: slots(1) }, { kind: 'idle' }],
    ['begins after the delay', { maxBatchDelay: 100, oldestAge: 40 }, { kind: 'wait', ms: 60 }],
  ])('%s', (_, input, decision) => {
    expect(decide({ ...base, ...input, continuous: true })).toEqual(decision);
  });
});

describe('always', () => {
  it('hands over at least one item, never more than a batch, than there are, or than a worker may hold', () => {
    for (const input of grid()) {
      const decision = decide(input);
      if (decision.kind !== 'dispatch') continue;
      expect(decision.count).toBeGreaterThanOrEqual(1);
      expect(decision.count).toBeLessThanOrEqual(Math.min(input.batchSize, input.queued));
      const held = input.slots[decision.slot]!.items;
      expect(held + decision.count).toBeLessThanOrEqual(input.batchSize * (1 + input.prefetch));
      expect(held).toBe(Math.min(...input.slots.map(({ items }) => items)));
    }
  });

  it('lets no worker idle while items wait, unless a delay asks for it', () => {
    for (const input of grid()) {
      if (input.queued === 0 || !input.slots.some(({ items }) => items === 0)) continue;
      const due = input.maxBatchDelay === undefined || input.oldestAge >= input.maxBatchDelay;
      const decision = decide(input);
      if (due || input.queued >= input.batchSize) expect(decision.kind).toBe('dispatch');
      else expect(decision).toEqual({ kind: 'wait', ms: input.maxBatchDelay! - input.oldestAge });
    }
  });
});
