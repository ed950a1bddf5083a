import { describe, expect, it } from 'vitest';
import { type ThreadInputs, threadShare, threadWarning, unreadableThreads } from './threads.js';

const inputs = (changes: Partial<ThreadInputs> = {}): ThreadInputs => ({
  configured: undefined,
  environment: {},
  cpus: 8,
  workers: 2,
  ...changes,
});

describe('threads of a run', () => {
  it.each<[Partial<ThreadInputs>, number, string]>([
    [{}, 4, 'cores divided by workers'],
    [{ workers: 3 }, 2, 'cores divided by workers'],
    [{ workers: 0 }, 8, 'cores divided by workers'],
    [{ workers: 20 }, 1, 'cores divided by workers'],
    [{ environment: { OMP_NUM_THREADS: '3', MKL_NUM_THREADS: '2' } }, 3, 'OMP_NUM_THREADS'],
    [{ environment: { OMP_NUM_THREADS: '2,4' } }, 2, 'OMP_NUM_THREADS'],
    [{ environment: { OMP_NUM_THREADS: 'many', MKL_NUM_THREADS: ' 2 ' } }, 2, 'MKL_NUM_THREADS'],
    [{ environment: { OMP_NUM_THREADS: '', OPENBLAS_NUM_THREADS: '5' } }, 5, 'OPENBLAS_NUM_THREADS'],
    [{ environment: { OMP_NUM_THREADS: '0' } }, 4, 'cores divided by workers'],
    [{ environment: { OMP_NUM_THREADS: '5000' } }, 4, 'cores divided by workers'],
    [{ configured: 1, environment: { OMP_NUM_THREADS: '3' } }, 1, 'intraOpNumThreads'],
    [{ configured: 0 }, 8, 'intraOpNumThreads'],
  ])('with %j are %d, by %s', (changes, threads, from) => {
    expect(threadShare(inputs(changes))).toEqual({ threads, from });
  });

  it.each<[Partial<ThreadInputs>, RegExp | undefined]>([
    [{}, undefined],
    [{ configured: 4 }, undefined],
    [{ configured: 5 }, /^2 workers with 5 threads each \(intraOpNumThreads\) share 8 cores .*set intraOpNumThreads to 4/],
    [{ environment: { OMP_NUM_THREADS: '8' } }, /8 threads each \(OMP_NUM_THREADS\).*set OMP_NUM_THREADS to 4, or leave it out/],
    [{ workers: 9, cpus: 4 }, /^9 workers with 1 thread each share 4 cores .*lower minWorkers to 4/],
    [{ workers: 1, cpus: 1, configured: 2 }, /^1 worker with 2 threads each .*share 1 core /],
    [{ workers: 0, configured: 20 }, undefined],
  ])('with %j warn: %s', (changes, words) => {
    const given = inputs(changes);
    const warning = threadWarning(threadShare(given), given);
    if (words === undefined) expect(warning).toBeUndefined();
    else expect(warning).toMatch(words);
  });

  it('that cannot be read are named', () => {
    expect(unreadableThreads({ OMP_NUM_THREADS: '2,4', MKL_NUM_THREADS: '' })).toBeUndefined();
    expect(unreadableThreads({ MKL_NUM_THREADS: 'all' })).toMatch(/^MKL_NUM_THREADS=all .* is ignored/);
  });
});
