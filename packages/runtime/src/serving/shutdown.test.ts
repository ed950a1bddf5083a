import { expect, it } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { type ShutdownParts, shutDown } from './shutdown.js';

function parts(changes: { requests?: Record<string, number>; open?: number; spent?: number; grace?: number } = {}) {
  const steps: string[] = [];
  let at = 0;
  const entrance = (name: string) => ({
    drain: () => void steps.push(`${name} drains`),
    ...(name === 'http' ? { closeIdle: () => void steps.push('idle connections end') } : {}),
    close: async (ms: number) => {
      steps.push(`${name} closes within ${ms}`);
      return name === 'http' ? (changes.open ?? 0) : 0;
    },
  });
  const all: ShutdownParts = {
    http: entrance('http'),
    grpc: entrance('grpc'),
    models: {
      leave: () => void steps.push('not ready'),
      drain: () => {
        steps.push('refuses');
        return new ServeError('DRAINING', 'shutting down');
      },
      close: async (ms) => {
        steps.push(`models close within ${ms}`);
        at += changes.spent ?? 0;
        return new Map(Object.entries(changes.requests ?? {}));
      },
    },
    workflows: { drain: async (_, ms) => void steps.push(`workflows drain within ${ms}`) },
    before: async () => void steps.push('before'),
    grace: changes.grace ?? 0,
    timeout: 30,
    pause: async (ms) => {
      steps.push(`takes requests for ${ms}`);
      at += ms;
    },
    now: () => at,
  };
  return { all, steps };
}

it('takes requests for the grace time while it is not ready, and only then refuses', async () => {
  const { all, steps } = parts({ grace: 5, spent: 10_000 });
  expect(await shutDown(all)).toEqual([]);
  expect(steps).toEqual([
    'not ready',
    'http drains',
    'grpc drains',
    'takes requests for 5000',
    'idle connections end',
    'before',
    'refuses',
    'workflows drain within 30000',
    'models close within 30000',
    'http closes within 20000',
    'grpc closes within 20000',
  ]);
});

it('has one limit for everything, says what was cut, and leaves a moment for what is written', async () => {
  const { all, steps } = parts({ requests: { m: 2 }, open: 3, spent: 30_000 });
  expect(await shutDown(all)).toEqual(['2 request(s) of model "m"', '3 HTTP request(s)']);
  expect(steps).toContain('http closes within 1000');
});
