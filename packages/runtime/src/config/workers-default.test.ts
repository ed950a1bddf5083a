import { describe, expect, it } from 'vitest';
import { resolveWorkersDefault } from './workers-default.js';

describe('resolveWorkersDefault', () => {
  const automatic = { defaultWorkersPerModel: 0, maxWorkersLimit: 64, numberOfGpu: undefined };
  it.each([
    ['one per CPU', automatic, 4, 0, 4],
    ['one per GPU', automatic, 4, 2, 2],
    ['GPUs as far as allowed', { ...automatic, numberOfGpu: 1 }, 4, 2, 1],
    ['CPUs when no GPU may be used', { ...automatic, numberOfGpu: 0 }, 4, 2, 4],
    ['as configured', { ...automatic, defaultWorkersPerModel: 3 }, 4, 2, 3],
    ['never above the limit', automatic, 128, 0, 64],
  ])('%s', (_, config, cpus, gpus, expected) => expect(resolveWorkersDefault(config, cpus, gpus)).toBe(expected));
});
