import { describe, expect, it } from 'vitest';
import type { Job } from './job.js';
import { JobQueue } from './queue.js';

const job = (id: number) => ({ id, state: { at: 'queue' } }) as Job;
const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => id);

describe('a queue', () => {
  it('gives first what came first', () => {
    const queue = new JobQueue();
    expect(queue.peek()).toBeUndefined();
    expect(queue.shift()).toBeUndefined();
    for (let id = 0; id < 5000; id++) queue.push(job(id));
    for (let id = 0; id < 5000; id++) {
      expect(queue.length).toBe(5000 - id);
      expect(queue.peek()?.id).toBe(id);
      expect(queue.shift()?.id).toBe(id);
    }
    expect(queue.length).toBe(0);
  });

  it('loses what is removed, once', () => {
    const queue = new JobQueue();
    const jobs = [0, 1, 2, 3].map(job);
    for (const it of jobs) queue.push(it);
    expect(queue.remove(jobs[2]!)).toBe(true);
    expect(queue.remove(jobs[2]!)).toBe(false);
    expect(queue.remove(jobs[0]!)).toBe(true);
    expect(queue.length).toBe(2);
    expect(ids(queue.drain())).toEqual([1, 3]);
    expect(queue.length).toBe(0);
    expect(queue.remove(jobs[1]!)).toBe(false);
  });

  it('puts back before everything younger', () => {
    const queue = new JobQueue();
    const jobs = [0, 1, 2, 3, 4].map(job);
    for (const it of jobs) queue.push(it);
    const taken = [queue.shift()!, queue.shift()!, queue.shift()!];
    queue.putBack([taken[2]!, taken[0]!]);
    expect(ids(queue.drain())).toEqual([0, 2, 3, 4]);
  });

  it('keeps its order when many come and leave behind a head that waits', () => {
    const queue = new JobQueue();
    const head = job(0);
    queue.push(head);
    const stay: number[] = [0];
    for (let id = 1; id < 10_000; id++) {
      const it = job(id);
      queue.push(it);
      if (id % 1000 === 0) stay.push(id);
      else expect(queue.remove(it)).toBe(true);
    }
    expect(queue.length).toBe(stay.length);
    expect(queue.peek()).toBe(head);
    expect(ids(queue.drain())).toEqual(stay);
  });
});

describe('the youngest', () => {
  it('is taken from the end, past what was removed', () => {
    const queue = new JobQueue();
    const jobs = [1, 2, 3, 4].map((id) => ({ id }) as Job);
    for (const job of jobs) queue.push(job);
    queue.remove(jobs[3]!);
    expect(queue.peekLast()?.id).toBe(3);
    expect(queue.pop()?.id).toBe(3);
    expect(queue.shift()?.id).toBe(1);
    expect(queue.length).toBe(1);
    expect(queue.pop()?.id).toBe(2);
    expect(queue.pop()).toBeUndefined();
    expect(queue.peek()).toBeUndefined();
    queue.push(jobs[0]!);
    expect(queue.peek()?.id).toBe(1);
  });
});
