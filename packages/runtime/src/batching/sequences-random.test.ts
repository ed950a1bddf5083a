import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { type Client, monotonicNow, noStages } from '../domain/request.js';
import { Batcher } from './batcher.js';
import type { Job, Slot } from './job.js';

/** The same numbers for the same seed. */
function random(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

class World {
  readonly batcher: Batcher;
  readonly slots: Slot[] = [];
  readonly clients: Client[] = [];
  /** How often each request was answered. */
  readonly answers: number[] = [];
  /** Numbers of sequences that workers keep, by worker. */
  readonly kept = new Map<Slot, Set<number>>();
  /** Requests in the order in which workers got them, by sequence. */
  readonly order = new Map<number, number[]>();

  constructor(batchSize: number) {
    this.batcher = new Batcher({
      model: 'm',
      version: '1.0',
      batchSize,
      maxBatchDelay: undefined,
      jobQueueSize: 1000,
      useJobTicket: false,
      clientTimeout: 0,
      sequences: { maxNumSequence: 3, maxSequenceJobQueueSize: 4, sequenceMaxIdleMSec: 500, sequenceTimeoutMSec: 2000 },
    });
  }

  attach(): void {
    const kept = new Set<number>();
    const slot: Slot = {
      workerId: 'w',
      jobs: new Set<Job>(),
      accepting: true,
      progressAt: 0,
      send: (jobs) => {
        for (const job of jobs) {
          const { number } = job.sequence!;
          kept.add(number);
          for (const [other, numbers] of this.kept) if (other !== slot) expect(numbers.has(number)).toBe(false);
          const order = this.order.get(number) ?? [];
          // One that comes back from a worker is handed out again.
          if (order.at(-1) !== Number(job.request.id)) order.push(Number(job.request.id));
          this.order.set(number, order);
        }
      },
      cancel: () => undefined,
      recall: () => undefined,
      endSequence: (number) => void kept.delete(number),
      sequencesEnded: () => this.stop(slot),
    };
    this.kept.set(slot, kept);
    this.slots.push(slot);
    this.batcher.attach(slot);
  }

  submit(id: string, start: boolean, end: boolean): void {
    const client: Client = { gone: false, onGone: undefined };
    const number = this.clients.push(client) - 1;
    this.answers.push(0);
    const count = () => void this.answers[number]!++;
    const place = { kind: 'predict' as const, modelName: 'm', modelVersion: undefined, urlPath: '', query: [], rawHeaders: [] };
    const sequence = { id, start, end };
    const request = { id: String(number), body: Buffer.alloc(0), receivedAt: monotonicNow(), client, sequence, ...place };
    this.batcher.submit(request).then(count, count);
  }

  /** The worker lets go of an item. */
  answer(slot: Slot, job: Job, ok: boolean): void {
    slot.jobs.delete(job);
    this.batcher.released(job, ok);
    if (!ok) this.batcher.fail(job, new ServeError('HANDLER_FAILED', 'no'));
    else
      this.batcher.succeed(job, {
        status: 200,
        headers: [],
        body: Buffer.alloc(0),
        stages: noStages(),
        batchSize: 1,
        workerId: 'w',
        modelVersion: '1.0',
      });
    this.batcher.pump();
  }

  die(slot: Slot): void {
    this.stop(slot);
    const jobs = this.batcher.detach(slot);
    const ran = (job: Job) => job.state.at !== 'worker' || job.state.running;
    for (const job of jobs.filter(ran)) {
      this.batcher.released(job, false);
      this.batcher.fail(job, new ServeError('WORKER_DIED', 'gone'));
    }
    this.batcher.putBack(jobs.filter((job) => !ran(job)));
  }

  stop(slot: Slot): void {
    const at = this.slots.indexOf(slot);
    if (at >= 0) this.slots.splice(at, 1);
    this.kept.delete(slot);
  }

  check(): void {
    expect(this.batcher.activeSequences).toBeLessThanOrEqual(3);
    for (const slot of this.slots) {
      const numbers = [...slot.jobs].map((job) => job.sequence!.number);
      expect(new Set(numbers).size).toBe(numbers.length);
    }
    const held = this.slots.reduce((sum, slot) => sum + [...slot.jobs].filter(({ state }) => state.at === 'worker').length, 0);
    expect(this.batcher.pending - this.batcher.queued).toBe(held);
    for (const order of this.order.values()) expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it.each(Array.from({ length: 60 }, (_, seed) => seed + 1))('whatever happens, seed %i', async (seed) => {
  const next = random(seed);
  const chance = (percent: number) => next(100) < percent;
  const world = new World(1 + (seed % 3));
  const pick = <T>(from: readonly T[]): T | undefined => from[next(from.length)];
  for (let step = 0; step < 150; step++) {
    const slot = pick(world.slots);
    const job = slot === undefined ? undefined : pick([...slot.jobs]);
    switch (next(10)) {
      case 0:
        if (world.slots.length < 3) world.attach();
        break;
      case 1:
      case 2:
      case 3:
        for (let count = next(4); count >= 0; count--) world.submit(pick(['a', 'b', 'c', 'd'])!, chance(15), chance(15));
        break;
      case 4:
        pick(world.clients)?.onGone?.();
        break;
      case 5:
      case 6:
        if (slot !== undefined && job !== undefined) world.answer(slot, job, chance(80));
        break;
      case 7:
        if (job?.state.at === 'worker') job.state.running = true;
        break;
      case 8:
        if (slot !== undefined && chance(40)) world.die(slot);
        else if (slot !== undefined && chance(15) && !world.batcher.retire(slot) && slot.jobs.size === 0) world.die(slot);
        else if (job?.state.at === 'worker' && !job.state.running) world.batcher.putBack([job]);
        break;
      case 9:
        await vi.advanceTimersByTimeAsync(next(700));
        break;
    }
    await vi.advanceTimersByTimeAsync(0);
    world.check();
  }
  // Nothing happens any more but answers: everybody gets one, and no sequence is left.
  for (let round = 0; round < 200 && world.batcher.pending > 0; round++) {
    if (world.slots.length === 0) world.attach();
    for (const slot of world.slots.slice()) for (const job of slot.jobs) world.answer(slot, job, true);
    if (round % 10 === 9 && !world.slots.some((slot) => slot.jobs.size > 0)) world.attach();
    await vi.advanceTimersByTimeAsync(0);
    world.check();
  }
  for (const slot of world.slots.slice()) for (const job of slot.jobs) world.answer(slot, job, false);
  await vi.advanceTimersByTimeAsync(3000);
  expect(world.answers.filter((times) => times !== 1)).toEqual([]);
  expect([world.batcher.pending, world.batcher.queued, world.batcher.activeSequences]).toEqual([0, 0, 0]);
  expect([...world.kept.values()].flatMap((numbers) => [...numbers])).toEqual([]);
});
