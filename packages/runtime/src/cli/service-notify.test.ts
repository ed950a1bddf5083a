import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ServiceNotify, watchdogPeriod } from './service-notify.js';

let said: string[];
let warnings: string[];
const notify = (env: NodeJS.ProcessEnv, problem?: string) =>
  new ServiceNotify({
    env,
    pid: 7,
    warn: (sentence) => warnings.push(sentence),
    send: (fields, failed) => {
      said.push(fields.join(' '));
      if (problem !== undefined) failed(problem);
    },
  });

beforeEach(() => {
  vi.useFakeTimers();
  said = [];
  warnings = [];
});
afterEach(() => vi.useRealTimers());

it('says nothing without a socket', () => {
  const it = notify({ WATCHDOG_USEC: '1000' });
  it.ready('2 models', () => true);
  it.stopping();
  vi.advanceTimersByTime(100);
  expect(said).toEqual([]);
});

it('says that the service is ready, that it lives, and that it stops', () => {
  let alive = true;
  const it = notify({ NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '2000000', WATCHDOG_PID: '7' });
  it.ready('2 models', () => alive);
  expect(said).toEqual(['READY=1 MAINPID=7 STATUS=2 models']);
  vi.advanceTimersByTime(2500);
  expect(said.slice(1)).toEqual(['WATCHDOG=1', 'WATCHDOG=1']);
  alive = false;
  vi.advanceTimersByTime(3000);
  expect(said).toHaveLength(3);
  it.stopping();
  expect(said.at(-1)).toBe('STOPPING=1 STATUS=accepted requests finish');
  it.close();
});

it('warns once when it cannot', () => {
  const it = notify({ NOTIFY_SOCKET: '/run/notify' }, 'no such program');
  it.ready('2 models', () => true);
  it.stopping();
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('no such program');
});

it.each([
  [{}, undefined],
  [{ WATCHDOG_USEC: '30000000' }, 15_000],
  [{ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' }, undefined],
  [{ WATCHDOG_USEC: 'x' }, undefined],
])('%j: a sign of life every %s ms', (env, expected) => {
  expect(watchdogPeriod(env, 7)).toBe(expected);
});
