import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { type Client, monotonicNow, noStages, type PredictReply, type SequenceMark } from '../domain/request.js';
import { Batcher, type BatcherSettings } from './batcher.js';
import type { Job, Slot } from './job.js';
import type { SequenceSettings } from './sequence.js';

class FakeSlot implements Slot {
  readonly jobs = new Set<Job>();
  readonly batches: string[][] = [];
  readonly ended: string[] = [];
  accepting = true;
  progressAt = 0;
  free = false;

  constructor(readonly workerId = 'w') {}

  send(jobs: readonly Job[]): void {
    this.batches.push(jobs.map(({ request }) => request.id));
  }
  endSequence(number: number, reason: string): void {
    this.ended.push(reason);
    void number;
  }
  sequencesEnded(): void {
    this.free = true;
  }
  cancel(): void {}
  recall(): void {}
}

const limits: SequenceSettings = {
  maxNumSequence: 2,
  maxSequenceJobQueueSize: 2,
  sequenceMaxIdleMSec: 0,
  sequenceTimeoutMSec: 0,
};
const settings: BatcherSettings = {
  model: 'm',
  version: '1.0',
  batchSize: 2,
  maxBatchDelay: undefined,
  jobQueueSize: 100,
  useJobTicket: false,
  clientTimeout: 0,
};

function make(changes: Partial<SequenceSettings> = {}, own: Partial<BatcherSettings> = {}) {
  const batcher = new Batcher({ ...settings, ...own, sequences: { ...limits, ...changes } });
  const outcomes: Record<string, string> = {};
  const submit = (id: string, mark: Partial<SequenceMark> & { readonly id: string }, client?: Client) => {
    const sequence = { start: false, end: false, ...mark };
    const request = {
      id,
      modelName: 'm',
      modelVersion: undefined,
      kind: 'predict' as const,
      rawHeaders: [],
      urlPath: '',
      query: [],
      body: Buffer.alloc(0),
      receivedAt: monotonicNow(),
      client,
      sequence,
    };
    const promise = batcher.submit(request);
    void promise.then(
      () => (outcomes[id] = 'ok'),
      (error: unknown) => (outcomes[id] = error instanceof ServeError ? error.reason : 'no ServeError'),
    );
    // Handed over as it would be at the end of the turn.
    batcher.pump();
  };
  return { batcher, outcomes, submit };
}
const reply = (): PredictReply => ({
  status: 200,
  headers: [],
  body: Buffer.from('ok'),
  stages: noStages(),
  batchSize: 1,
  workerId: 'w',
  modelVersion: '1.0',
});
const find = (slot: FakeSlot, id: string) => [...slot.jobs].find(({ request }) => request.id === id)!;

/** What a worker does with one of its items. */
function answer(batcher: Batcher, slot: FakeSlot, id: string, ok = true): void {
  const job = find(slot, id);
  slot.jobs.delete(job);
  batcher.released(job, ok);
  if (ok) batcher.succeed(job, reply());
  else batcher.fail(job, new ServeError('HANDLER_FAILED', 'no'));
  batcher.pump();
}
/** As a worker process that is gone: what ran is answered, the rest goes back. */
function die(batcher: Batcher, slot: FakeSlot, running: readonly string[]): void {
  for (const job of slot.jobs) if (job.state.at === 'worker') job.state.running = running.includes(job.request.id);
  const jobs = batcher.detach(slot);
  const died = new ServeError('WORKER_DIED', 'gone');
  for (const job of jobs.filter(({ request }) => running.includes(request.id))) {
    batcher.released(job, false);
    batcher.fail(job, died);
  }
  batcher.putBack(jobs.filter(({ request }) => !running.includes(request.id)));
}
const settle = async () => await vi.advanceTimersByTimeAsync(0);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('order', () => {
  it('one member of a sequence at a time, members of different ones together', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    submit('a1', { id: 'a' });
    submit('a2', { id: 'a' });
    submit('b1', { id: 'b' });
    batcher.attach(slot);
    expect(slot.batches).toEqual([['a1', 'b1']]);
    answer(batcher, slot, 'b1');
    expect(slot.batches).toHaveLength(1);
    answer(batcher, slot, 'a1');
    expect(slot.batches).toEqual([['a1', 'b1'], ['a2']]);
    answer(batcher, slot, 'a2');
    await settle();
    expect(outcomes).toEqual({ a1: 'ok', a2: 'ok', b1: 'ok' });
    expect(batcher.queued).toBe(0);
  });

  it('keeps a sequence with its worker, and gives new ones to the worker with the fewest', () => {
    const { batcher, submit } = make({ maxNumSequence: 9 });
    const slots = [new FakeSlot('1'), new FakeSlot('2')];
    for (const slot of slots) batcher.attach(slot);
    for (const id of ['a', 'b', 'c', 'd']) submit(`${id}1`, { id });
    expect(slots.map(({ jobs }) => jobs.size)).toEqual([2, 2]);
    const home = slots.find((slot) => find(slot, 'a1') !== undefined)!;
    for (const slot of slots) for (const { request } of slot.jobs) answer(batcher, slot, request.id);
    submit('a2', { id: 'a' });
    expect([...home.jobs].map(({ request }) => request.id)).toEqual(['a2']);
  });

  it('goes on past a member whose client has left, waiting or running', async () => {
    const { batcher, submit, outcomes } = make({ maxSequenceJobQueueSize: 9 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    const clients = [1, 2, 3].map((): Client => ({ gone: false, onGone: undefined }));
    clients.forEach((client, index) => submit(`a${index + 1}`, { id: 'a' }, client));
    clients[1]!.onGone!();
    clients[0]!.onGone!();
    await settle();
    expect(outcomes).toEqual({ a1: 'cancelled', a2: 'cancelled' });
    // The worker still has the first.
    expect(slot.batches).toEqual([['a1']]);
    answer(batcher, slot, 'a1', false);
    expect(slot.batches).toEqual([['a1'], ['a3']]);
  });

  it('a describe request belongs to no sequence', () => {
    const { batcher, submit } = make({ maxNumSequence: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a' });
    const request = { ...find(slot, 'a1').request, id: 'd', kind: 'describe' as const };
    void batcher.submit(request);
    batcher.pump();
    expect(slot.batches).toEqual([['a1'], ['d']]);
  });
});

describe('limits', () => {
  it('maxNumSequence holds until one ends', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    for (const id of ['a', 'b', 'c']) submit(`${id}1`, { id, end: id === 'a' });
    await settle();
    expect(outcomes).toEqual({ c1: 'too-many-sequences' });
    expect(batcher.activeSequences).toBe(2);
    answer(batcher, slot, 'a1');
    expect(batcher.activeSequences).toBe(1);
    expect(slot.ended).toEqual(['end']);
    submit('c2', { id: 'c' });
    expect(find(slot, 'c2')).toBeDefined();
  });

  it('maxSequenceJobQueueSize counts those that wait behind the one that runs', async () => {
    const { batcher, submit, outcomes } = make();
    batcher.attach(new FakeSlot());
    for (const id of ['a1', 'a2', 'a3', 'a4']) submit(id, { id: 'a' });
    await settle();
    expect(outcomes).toEqual({ a4: 'sequence-queue-full' });
    expect(batcher.queued).toBe(2);
  });
});

describe('the end of a sequence', () => {
  it('an end mark lets what waits behind it begin anew in the same place', () => {
    const { batcher, submit } = make({ maxNumSequence: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a', end: true });
    submit('a2', { id: 'a' });
    const before = find(slot, 'a1').sequence!.number;
    answer(batcher, slot, 'a1');
    expect(slot.ended).toEqual(['end']);
    expect(find(slot, 'a2').sequence!.number).not.toBe(before);
  });

  it('an end mark counts although its client has left', () => {
    const { batcher, submit } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    const client: Client = { gone: false, onGone: undefined };
    submit('a1', { id: 'a' });
    submit('a2', { id: 'a', end: true }, client);
    client.onGone!();
    expect(batcher.activeSequences).toBe(1);
    answer(batcher, slot, 'a1');
    expect(batcher.activeSequences).toBe(0);
    expect(slot.ended).toEqual(['end']);
  });

  it('a start mark begins a live sequence anew', () => {
    const { batcher, submit } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a', start: true });
    const before = find(slot, 'a1').sequence!.number;
    answer(batcher, slot, 'a1');
    submit('a2', { id: 'a', start: true });
    expect(slot.ended).toEqual(['restart']);
    expect(find(slot, 'a2').sequence!.number).not.toBe(before);
  });

  it('ends when idle, counted from the last answer, and tells a late member', async () => {
    const { batcher, submit, outcomes } = make({ sequenceMaxIdleMSec: 1000 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a', start: true });
    submit('b1', { id: 'b' });
    await vi.advanceTimersByTimeAsync(5000);
    expect(batcher.activeSequences).toBe(2);
    answer(batcher, slot, 'a1');
    answer(batcher, slot, 'b1');
    await vi.advanceTimersByTimeAsync(600);
    submit('a2', { id: 'a' });
    answer(batcher, slot, 'a2');
    await vi.advanceTimersByTimeAsync(600);
    expect(batcher.activeSequences).toBe(1);
    await vi.advanceTimersByTimeAsync(600);
    expect(batcher.activeSequences).toBe(0);
    expect(slot.ended).toEqual(['idle', 'idle']);
    submit('a3', { id: 'a' });
    // Its client never used marks, so to it this is the first request.
    submit('b2', { id: 'b' });
    submit('a4', { id: 'a', start: true });
    await settle();
    expect(outcomes).toMatchObject({ a3: 'sequence-expired' });
    expect(slot.batches.flat()).toEqual(expect.arrayContaining(['b2', 'a4']));
  });

  it('ends after its time in total: what runs is finished, what waits is refused', async () => {
    const { batcher, submit, outcomes } = make({ sequenceTimeoutMSec: 1000 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a' });
    submit('a2', { id: 'a' });
    await vi.advanceTimersByTimeAsync(1001);
    expect(outcomes).toEqual({ a2: 'sequence-expired' });
    submit('a3', { id: 'a', start: true });
    await settle();
    expect(outcomes).toMatchObject({ a3: 'sequence-expired' });
    answer(batcher, slot, 'a1');
    await settle();
    expect(outcomes).toMatchObject({ a1: 'ok' });
    expect(slot.ended).toEqual(['timeout']);
    expect(batcher.activeSequences).toBe(0);
  });

  it('a sequence whose id nobody learnt ends with its failed first request', () => {
    const { batcher, submit } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'made', start: true, made: true });
    answer(batcher, slot, 'a1', false);
    expect(batcher.activeSequences).toBe(0);
    expect(slot.ended).toEqual(['abandoned']);
  });
});

describe('the worker', () => {
  it('takes its sequences with it: none of their members runs again', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a', start: true });
    submit('a2', { id: 'a' });
    die(batcher, slot, ['a1']);
    const next = new FakeSlot();
    batcher.attach(next);
    submit('a3', { id: 'a' });
    await settle();
    expect(outcomes).toEqual({ a1: 'worker-died', a2: 'sequence-lost', a3: 'sequence-lost' });
    expect(next.batches).toEqual([]);
    expect(batcher.activeSequences).toBe(0);
    submit('a4', { id: 'a', start: true });
    expect(next.batches).toEqual([['a4']]);
  });

  it('takes along a sequence whose running member has lost its client', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    const client: Client = { gone: false, onGone: undefined };
    submit('a1', { id: 'a' }, client);
    submit('a2', { id: 'a' });
    find(slot, 'a1').state = { at: 'worker', slot, running: true };
    client.onGone!();
    die(batcher, slot, []);
    await settle();
    expect(outcomes).toEqual({ a1: 'cancelled', a2: 'sequence-lost' });
    expect(batcher.activeSequences).toBe(0);
  });

  it('a sequence that it had not begun goes to another', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a' });
    submit('b1', { id: 'b' });
    submit('b2', { id: 'b' });
    die(batcher, slot, ['a1']);
    const next = new FakeSlot();
    batcher.attach(next);
    expect(next.batches).toEqual([['b1']]);
    answer(batcher, next, 'b1');
    answer(batcher, next, 'b2');
    await settle();
    expect(outcomes).toEqual({ a1: 'worker-died', b1: 'ok', b2: 'ok' });
  });

  it('a sequence that waited for a full one goes to another', async () => {
    const { batcher, submit, outcomes } = make({ maxNumSequence: 3 }, { batchSize: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    for (const id of ['a', 'b', 'c']) submit(`${id}1`, { id });
    expect(slot.jobs.size).toBe(2);
    die(batcher, slot, ['a1']);
    const next = new FakeSlot();
    batcher.attach(next);
    expect(next.batches.flat().toSorted()).toEqual(['b1', 'c1']);
    for (const id of ['b1', 'c1']) answer(batcher, next, id);
    await settle();
    expect(outcomes).toEqual({ a1: 'worker-died', b1: 'ok', c1: 'ok' });
  });

  it('that is to stop keeps its sequences until they end and gets no new ones', () => {
    const { batcher, submit } = make({ maxNumSequence: 9 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a' });
    answer(batcher, slot, 'a1');
    expect(batcher.retire(slot)).toBe(true);
    submit('b1', { id: 'b' });
    expect(batcher.queued).toBe(1);
    submit('a2', { id: 'a', end: true });
    expect(find(slot, 'a2')).toBeDefined();
    answer(batcher, slot, 'a2');
    expect(slot.free).toBe(true);
    expect(batcher.retire(slot)).toBe(false);
    const other = new FakeSlot();
    batcher.attach(other);
    expect(other.batches).toEqual([['b1']]);
  });

  it('is not asked for when the model is gone: idle sequences end, what waits is answered', async () => {
    const { batcher, submit, outcomes } = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    submit('a1', { id: 'a' });
    answer(batcher, slot, 'a1');
    submit('b1', { id: 'b' });
    submit('b2', { id: 'b' });
    batcher.close(new ServeError('DRAINING', 'bye'), false);
    expect(batcher.activeSequences).toBe(1);
    batcher.close(new ServeError('DRAINING', 'bye'), true);
    await settle();
    expect(outcomes).toEqual({ a1: 'ok', b2: 'draining' });
    answer(batcher, slot, 'b1');
    expect(batcher.activeSequences).toBe(0);
    expect(slot.ended).toEqual(['stop', 'stop']);
  });
});
