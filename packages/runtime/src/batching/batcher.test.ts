import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { type Client, monotonicNow, noStages, type PredictReply, type PredictRequest } from '../domain/request.js';
import { Batcher, type BatcherSettings } from './batcher.js';
import type { Job, Slot } from './job.js';

class FakeSlot implements Slot {
  readonly jobs = new Set<Job>();
  readonly batches: Job[][] = [];
  readonly cancelled: Job[] = [];
  readonly recalls: number[] = [];
  accepting = true;
  progressAt = 0;

  constructor(readonly workerId = 'w') {}

  send(jobs: readonly Job[]): void {
    this.batches.push([...jobs]);
  }
  cancel(job: Job): void {
    this.cancelled.push(job);
  }
  recall(count: number): void {
    this.recalls.push(count);
  }
  endSequence(): void {}
  sequencesEnded(): void {}
  get sizes(): number[] {
    return this.batches.map(({ length }) => length);
  }
}

const settings: BatcherSettings = {
  model: 'm',
  version: '1.0',
  batchSize: 4,
  maxBatchDelay: undefined,
  jobQueueSize: 10,
  useJobTicket: false,
  clientTimeout: 0,
};
const make = (changes: Partial<BatcherSettings> = {}) => new Batcher({ ...settings, ...changes });
const request = (changes: Partial<PredictRequest> = {}): PredictRequest => ({
  id: 'r',
  modelName: 'm',
  modelVersion: undefined,
  kind: 'predict',
  rawHeaders: [],
  urlPath: '',
  query: [],
  body: Buffer.alloc(0),
  receivedAt: monotonicNow(),
  client: undefined,
  ...changes,
});
const reply = (body = 'ok'): PredictReply => ({
  status: 200,
  headers: [],
  body: Buffer.from(body),
  stages: noStages(),
  batchSize: 1,
  workerId: 'w',
  modelVersion: '1.0',
});
/** The code of the error, or the body. */
const outcome = (promise: Promise<PredictReply>) =>
  promise.then(
    ({ body }) => (body as Buffer).toString(),
    (error: unknown) => (error instanceof ServeError ? error.code : 'no ServeError'),
  );
/** Lets the batcher hand over what came in one turn. */
const turn = () => vi.advanceTimersByTime(0);
function ask(batcher: Batcher, changes: Partial<PredictRequest> = {}): Promise<PredictReply> {
  const promise = batcher.submit(request(changes));
  turn();
  return promise;
}
function many(batcher: Batcher, count: number): Array<Promise<string>> {
  const all = Array.from({ length: count }, () => outcome(batcher.submit(request())));
  turn();
  return all;
}
function finish(batcher: Batcher, slot: FakeSlot, body?: string): void {
  for (const job of slot.jobs) batcher.succeed(job, reply(body));
  batcher.pump();
}
const gone = new ServeError('MODEL_NOT_FOUND', 'gone');

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'hrtime'] }));
afterEach(() => void vi.useRealTimers());

describe('handing over', () => {
  it('sends a lone request at once, and what comes later up to two batches', async () => {
    const batcher = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    const all = many(batcher, 12);
    expect(slot.jobs.size).toBe(8);
    expect(batcher.queued).toBe(4);
    expect(batcher.pending).toBe(12);
    finish(batcher, slot);
    finish(batcher, slot);
    expect(await Promise.all(all)).toEqual(all.map(() => 'ok'));
    expect(batcher.pending).toBe(0);
  });

  it('keeps to the delay, measured from the arrival of the oldest', () => {
    const batcher = make({ maxBatchDelay: 100 });
    const slot = new FakeSlot();
    void many(batcher, 2);
    vi.advanceTimersByTime(60);
    batcher.attach(slot);
    vi.advanceTimersByTime(39);
    expect(slot.sizes).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(slot.sizes).toEqual([2]);
  });

  it('does not wait when the batch is full', () => {
    const batcher = make({ maxBatchDelay: 1e9 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    void many(batcher, 5);
    expect(slot.sizes).toEqual([4]);
  });

  it('sends nothing to a worker on its way out', () => {
    const batcher = make();
    const slot = new FakeSlot();
    batcher.attach(slot);
    slot.accepting = false;
    void many(batcher, 1);
    expect(slot.sizes).toEqual([]);
  });

  it('asks a handler about itself outside of batches', () => {
    const batcher = make();
    void many(batcher, 1);
    void ask(batcher, { kind: 'describe' });
    void many(batcher, 1);
    const slot = new FakeSlot();
    batcher.attach(slot);
    expect(slot.batches.map((batch) => batch.map((job) => job.request.kind))).toEqual([['predict'], ['describe'], ['predict']]);
  });

  it('gives a suspect a worker to itself', () => {
    const batcher = make();
    const first = new FakeSlot();
    batcher.attach(first);
    void many(batcher, 3);
    const jobs = batcher.detach(first);
    for (const job of jobs) job.suspect = true;
    batcher.putBack(jobs);
    void many(batcher, 2);
    const next = new FakeSlot();
    batcher.attach(next);
    for (let round = 0; round < 3; round++) {
      expect(next.batches).toHaveLength(round + 1);
      expect(next.jobs).toEqual(new Set([jobs[round]]));
      finish(batcher, next);
    }
    expect(next.jobs.size).toBe(2);
  });

  it('calls half back from a worker that makes no progress while another idles', () => {
    const batcher = make();
    const busy = new FakeSlot('busy');
    batcher.attach(busy);
    void many(batcher, 5);
    batcher.attach(new FakeSlot('free'));
    vi.advanceTimersByTime(20);
    expect(busy.recalls).toEqual([2]);
  });
});

describe('what is refused', () => {
  it('more than the queue holds, with the numbers', async () => {
    const batcher = make({ jobQueueSize: 2 });
    void many(batcher, 2);
    const error = await ask(batcher).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'QUEUE_FULL', retryAfter: 1 });
    expect(String(error)).toMatch(/2 requests wait, the limit is 2 \(jobQueueSize/);
    expect(batcher.pending).toBe(2);
  });

  it('nothing that a free worker takes, however many come in one turn', async () => {
    const batcher = make({ jobQueueSize: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    const all = many(batcher, 5);
    finish(batcher, slot);
    finish(batcher, slot);
    expect(await Promise.all(all)).toEqual(all.map(() => 'ok'));
  });

  it('what no free worker takes, with job tickets', async () => {
    const batcher = make({ useJobTicket: true, batchSize: 1 });
    expect(await outcome(ask(batcher))).toBe('QUEUE_FULL');
    const slot = new FakeSlot();
    batcher.attach(slot);
    const first = outcome(ask(batcher));
    expect(await outcome(ask(batcher))).toBe('QUEUE_FULL');
    finish(batcher, slot);
    expect(await first).toBe('ok');
  });

  it('what nobody will ever serve', async () => {
    expect(await outcome(make().submit(request(), gone))).toBe('MODEL_NOT_FOUND');
  });
});

describe('the end', () => {
  it('lets what was accepted finish, and tells when', async () => {
    const batcher = make({ batchSize: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    const all = many(batcher, 3);
    batcher.close(gone, false);
    expect(await outcome(ask(batcher))).toBe('MODEL_NOT_FOUND');
    let empty = false;
    const done = batcher.empty().then(() => (empty = true));
    finish(batcher, slot);
    expect(empty).toBe(false);
    finish(batcher, slot);
    await done;
    expect(await Promise.all(all)).toEqual(['ok', 'ok', 'ok']);
  });

  it('refuses what waits, and what a worker gives back afterwards', async () => {
    const batcher = make({ batchSize: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    const all = many(batcher, 4);
    batcher.close(gone, true);
    batcher.putBack(batcher.detach(slot));
    expect(await Promise.all(all)).toEqual(all.map(() => 'MODEL_NOT_FOUND'));
    await batcher.empty();
  });
});

describe('clients that do not wait', () => {
  it('leave the queue', async () => {
    const batcher = make();
    const client: Client = { gone: false, onGone: undefined };
    const left = outcome(ask(batcher, { client }));
    const stays = outcome(ask(batcher));
    client.onGone?.();
    expect(await left).toBe('CANCELLED');
    const slot = new FakeSlot();
    batcher.attach(slot);
    expect(slot.sizes).toEqual([1]);
    finish(batcher, slot);
    expect(await stays).toBe('ok');
  });

  it('are gone before they are queued', async () => {
    const batcher = make();
    expect(await outcome(ask(batcher, { client: { gone: true, onGone: undefined } }))).toBe('CANCELLED');
    expect(batcher.pending).toBe(0);
  });

  it('keep their place at the worker until it lets go', async () => {
    const batcher = make({ batchSize: 1 });
    const slot = new FakeSlot();
    batcher.attach(slot);
    const client: Client = { gone: false, onGone: undefined };
    const left = outcome(ask(batcher, { client }));
    client.onGone?.();
    expect(await left).toBe('CANCELLED');
    const [job] = slot.jobs;
    expect(slot.cancelled).toEqual([job]);
    expect(batcher.pending).toBe(0);
    batcher.succeed(job!, reply('too late'));
    expect(batcher.putBack([job!])).toBeUndefined();
    expect(batcher.queued).toBe(0);
  });

  it.each([0, 1])('are answered when their time is over, with %i workers', async (workers) => {
    const batcher = make({ clientTimeout: 200 });
    if (workers > 0) batcher.attach(new FakeSlot());
    const late = ask(batcher).catch((error: unknown) => error);
    vi.advanceTimersByTime(250);
    const error = await late;
    expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(String(error)).toContain(workers > 0 ? 'at a worker' : 'in the queue');
  });

  it('take the nearer of two deadlines', async () => {
    const batcher = make({ clientTimeout: 10_000 });
    const late = outcome(ask(batcher, { deadline: monotonicNow() + 50e6 }));
    vi.advanceTimersByTime(60);
    expect(await late).toBe('DEADLINE_EXCEEDED');
  });

  it('may wait for months', async () => {
    const batcher = make();
    const slot = new FakeSlot();
    const patient = outcome(ask(batcher, { deadline: monotonicNow() + 90 * 86_400e9 }));
    vi.advanceTimersByTime(30 * 86_400_000);
    batcher.attach(slot);
    finish(batcher, slot);
    expect(await patient).toBe('ok');
  });
});
