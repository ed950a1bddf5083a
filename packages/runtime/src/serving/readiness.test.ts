import { describe, expect, it } from 'vitest';
import { type ModelFacts, type ModelReadiness, modelState, serverReadiness } from './readiness.js';

const now = 1_000_000;
const up = { ready: true, failed: false, downSince: 0 };
const down = (ago: number, failed = false) => ({ ready: false, failed, downSince: now - ago });
const state = (facts: Partial<ModelFacts>) =>
  modelState({ minWorkers: 1, places: [], loadedBefore: true, loadSeconds: 3, ...facts }, now);

describe('the state of a model', () => {
  it.each<[string, Partial<ModelFacts>]>([
    ['ready', { places: [up] }],
    ['ready', { minWorkers: 2, places: [up, up, down(99_000, true)] }],
    ['ready', { minWorkers: 0, places: [up] }],
    ['no-workers', { minWorkers: 0 }],
    ['loading', { loadedBefore: false, places: [down(600_000)] }],
    ['loading', { loadedBefore: false, minWorkers: 2, places: [up, down(10)] }],
    ['failed', { loadedBefore: false, places: [down(10, true)] }],
    ['recovering', { places: [down(5_900)] }],
    ['failed', { places: [down(6_100)] }],
    ['failed', { places: [down(10, true)] }],
    ['failed', { minWorkers: 2, places: [up, down(10, true)] }],
    ['recovering', { minWorkers: 2, places: [up, down(10)] }],
    ['recovering', { loadSeconds: 0.05, places: [down(1_900)] }],
    ['failed', { loadSeconds: 0.05, places: [down(2_100)] }],
  ])('%s', (expected, facts) => {
    expect(state(facts)).toBe(expected);
  });
});

describe('readiness of the server', () => {
  const model: ModelReadiness = { name: 'm', version: '1.0', state: 'ready', readyWorkers: 1, minWorkers: 1 };
  const broken: ModelReadiness = { ...model, state: 'failed', message: 'no vocabulary' };
  const given = { phase: 'serving', counted: [model], notRegistered: [], blocked: undefined } as const;

  it('is there when every model serves', () => {
    expect(serverReadiness(given)).toMatchObject({ live: true, ready: true, problems: [] });
  });

  it.each([
    ['while start-up models load', { phase: 'loading' as const }, /loading/],
    ['while it stops', { phase: 'draining' as const }, /shutting down/],
    ['when a model fails', { counted: [model, broken] }, /no vocabulary/],
    ['when a model could not be registered', { notRegistered: ['x.mar: no such file'] }, /x\.mar/],
  ])('is not there %s, and the front lives', (_, changes, why) => {
    const readiness = serverReadiness({ ...given, ...changes });
    expect(readiness).toMatchObject({ live: true, ready: false });
    expect(readiness.problems.join()).toMatch(why);
  });

  it('is gone together with liveness when the front is blocked', () => {
    expect(serverReadiness({ ...given, blocked: 'blocked for 25 s' })).toMatchObject({
      live: false,
      ready: false,
      problems: ['blocked for 25 s'],
    });
  });
});
