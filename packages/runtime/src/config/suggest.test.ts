import { describe, expect, it } from 'vitest';
import { editDistance, nearest } from './suggest.js';

describe('nearest', () => {
  const keys = ['job_queue_size', 'models', 'model_store', 'minWorkers', 'batchSize', 'debug'];
  it.each([
    ['jobQueueSize', 'job_queue_size'],
    ['job-queue-size', 'job_queue_size'],
    ['job_queue_sise', 'job_queue_size'],
    ['min_workers', 'minWorkers'],
    ['minworker', 'minWorkers'],
    ['bathcSize', 'batchSize'],
    ['labels', undefined],
    ['mode', undefined],
    ['threshold', undefined],
  ])('%s: %s', (name, expected) => expect(nearest(name, keys)).toBe(expected));

  // Compared letter by letter, this one would take minutes.
  it('does not compare what is far longer', () => expect(nearest('x'.repeat(20_000_000), keys)).toBe(undefined));
});

describe('editDistance', () => {
  it.each([
    ['', 'abc', 3],
    ['abc', 'abc', 0],
    ['abc', 'acb', 1],
    ['kitten', 'sitting', 3],
  ])('%j to %j is %d', (a, b, distance) => expect(editDistance(a, b)).toBe(distance));
});
