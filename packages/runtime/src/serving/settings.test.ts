import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../config/model-config.js';
import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import type { ModelArchive } from '../registry/model-archive.js';
import type { RegisterOptions } from './management-service.js';
import { effectiveSettings } from './settings.js';

const config = {
  jobQueueSize: 100,
  defaultResponseTimeout: 120,
  defaultStartupTimeout: 121,
  onLoadFailure: 'retry',
} as ServerConfig;
const settings = (file: Partial<ModelConfig>, given: Partial<RegisterOptions> = {}, startup?: StartupModelSettings) =>
  effectiveSettings({ config: { onnx: {}, free: {}, ...file } } as unknown as ModelArchive, config, given, startup);

describe('what holds for a model', () => {
  it('are the defaults when nobody says anything', () => {
    expect(settings({})).toEqual({
      batchSize: 1,
      maxBatchDelay: 100,
      delayIsExplicit: false,
      responseTimeout: 120,
      startupTimeout: 121,
      maxRetryTimeoutInSec: 300,
      onLoadFailure: 'retry',
      spareWorkers: 0,
      clientTimeoutInMills: 0,
      jobQueueSize: 100,
      useJobTicket: false,
      threads: undefined,
      minWorkers: 0,
      maxWorkers: 0,
    });
  });

  const three = [
    { batchSize: 2, responseTimeout: 2 },
    { batchSize: 3, responseTimeout: 3 },
    { batchSize: 4, responseTimeout: 4 },
  ];
  it.each([
    ['the call beats all', three[0], three[1], three[2], 2],
    ['the file beats models', {}, three[1], three[2], 3],
    ['models beats the defaults', {}, {}, three[2], 4],
  ])('%s', (_, given, file, startup, value) => {
    expect(settings(file!, given, startup)).toMatchObject({ batchSize: value, responseTimeout: value });
  });

  it.each([
    ['call', {}, { maxBatchDelay: 0 }, undefined],
    ['file', { maxBatchDelay: 0 }, {}, undefined],
    ['models', {}, {}, { maxBatchDelay: 0 }],
  ])('a delay of zero is explicit when the %s says so', (_, file, given, startup) => {
    expect(settings(file, given, startup)).toMatchObject({ maxBatchDelay: 0, delayIsExplicit: true });
  });
});

describe('workers', () => {
  it.each<[string, Partial<ModelConfig>, number | undefined, StartupModelSettings | undefined, [number, number]]>([
    ['of the call', {}, 3, undefined, [3, 3]],
    ['of the file beat the call', { minWorkers: 2, maxWorkers: 4 }, 7, undefined, [2, 4]],
    ['of the file without a maximum', { minWorkers: 2 }, undefined, undefined, [2, 2]],
    ['of a file that contradicts itself are ignored', { minWorkers: 4, maxWorkers: 2 }, 1, undefined, [1, 1]],
    ['of models beat the default', {}, 1, { minWorkers: 2, maxWorkers: 5 }, [2, 5]],
    ['never have a maximum below the minimum', {}, undefined, { minWorkers: 3, maxWorkers: 1 }, [3, 3]],
  ])('%s', (_, file, initialWorkers, startup, [minWorkers, maxWorkers]) => {
    const given = initialWorkers === undefined ? {} : { initialWorkers };
    expect(settings(file, given, startup)).toMatchObject({ minWorkers, maxWorkers });
  });
});
