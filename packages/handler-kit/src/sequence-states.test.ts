import { expect, it } from 'vitest';
import type { HandlerLife } from './handler.js';
import { SequenceStates } from './sequence-states.js';
import { testContext } from './testing/test-context.js';

const place = { id: 'a', start: true, end: false };
function make(handler: HandlerLife<unknown, unknown>) {
  const errors: unknown[] = [];
  const { context } = testContext({});
  return { states: new SequenceStates(handler, { ...context, state: 's' }, (error) => errors.push(error)), errors };
}

it('begins a sequence once, also when two of its requests come while it begins', async () => {
  let begun = 0;
  const { states } = make({ startSequence: () => Promise.resolve(++begun) });
  await Promise.all([states.enter(1, place), states.enter(1, place)]);
  expect(states.enter(1, place)).toBeUndefined();
  expect(states.handle(1, place)).toEqual({ ...place, state: 1 });
});

it('tries again after a start that failed', async () => {
  let tries = 0;
  const { states } = make({
    startSequence: () => {
      if (++tries === 1) return Promise.reject(new Error('not yet'));
      if (tries === 2) throw new Error('still not');
      return tries;
    },
  });
  await expect(states.enter(1, place)).rejects.toThrow('not yet');
  expect(() => states.enter(1, place)).toThrow('still not');
  expect(states.enter(1, place)).toBeUndefined();
  expect(states.handle(1, place).state).toBe(3);
});

it('ends with the state as it is then, once, and not before it has begun', async () => {
  const ended: unknown[] = [];
  let begin: ((state: number) => void) | undefined;
  const { states } = make({
    startSequence: () => new Promise((resolve) => (begin = resolve)),
    endSequence: (state, reason, ctx) => void ended.push([state, reason, ctx.sequence.id, ctx.state]),
  });
  const entering = states.enter(1, place);
  const ending = states.end(1, 'idle');
  expect(ended).toEqual([]);
  begin!(7);
  await Promise.all([entering, ending, states.end(1, 'end')]);
  expect(ended).toEqual([[7, 'idle', 'a', 's']]);
});

it('waits for all that end, and tells what endSequence throws', async () => {
  let finish: (() => void) | undefined;
  const { states, errors } = make({
    startSequence: () => 1,
    endSequence: async (_, reason) => {
      if (reason === 'stop') throw new Error('cannot stop');
      await new Promise<void>((resolve) => (finish = resolve));
    },
  });
  void states.enter(1, place);
  void states.enter(2, place);
  void states.end(1, 'end');
  let over = false;
  const all = states.endAll('stop').then(() => (over = true));
  await Promise.resolve();
  expect(over).toBe(false);
  finish!();
  await all;
  expect(errors).toEqual([new Error('cannot stop')]);
});

it('a state may be replaced; one of a sequence that has ended goes nowhere', async () => {
  const { states } = make({ startSequence: () => 1 });
  void states.enter(1, place);
  const handle = states.handle(1, place);
  handle.state = 2;
  expect(states.handle(1, place).state).toBe(2);
  await states.end(1, 'end');
  handle.state = 3;
  expect(handle.state).toBeUndefined();
});
