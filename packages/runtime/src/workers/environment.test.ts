import { expect, it } from 'vitest';
import { visibleEnvironment, workerEnvironment } from './environment.js';

const share = { threads: 3, from: 'cores divided by workers' } as const;

it('limits every library to the threads of a run', () => {
  expect(workerEnvironment({ HOME: '/h' }, share)).toMatchObject({
    HOME: '/h',
    OMP_NUM_THREADS: '3',
    MKL_NUM_THREADS: '3',
    OPENBLAS_NUM_THREADS: '3',
    VIPS_CONCURRENCY: '3',
    RAYON_NUM_THREADS: '3',
    TOKENIZERS_PARALLELISM: 'false',
  });
});

it("leaves the operator's variables, unless the model says how many threads it wants", () => {
  const own = { OMP_NUM_THREADS: '7', VIPS_CONCURRENCY: '2', TOKENIZERS_PARALLELISM: 'true' };
  expect(workerEnvironment(own, { threads: 7, from: 'OMP_NUM_THREADS' })).toMatchObject({ ...own, MKL_NUM_THREADS: '7' });
  expect(workerEnvironment(own, { threads: 1, from: 'intraOpNumThreads' })).toMatchObject({ ...own, OMP_NUM_THREADS: '1' });
});

it('shows what blacklist_env_vars does not match as a whole', () => {
  const own = { SECRET: 'a', SECRET_2: 'b', OTHER: 'c' };
  expect(visibleEnvironment(own, { blacklistEnvVars: 'SECRET|OTH' })).toEqual({ SECRET_2: 'b', OTHER: 'c' });
  expect(visibleEnvironment(own, { blacklistEnvVars: undefined })).toEqual(own);
});
