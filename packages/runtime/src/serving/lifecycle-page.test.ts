import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type ErrorCode, ServeError } from '../domain/errors.js';
import { torchServeError } from '../protocol/torchserve/status-map.js';
import { exitCodes } from '../cli/ending.js';
import { workerStates } from '../workers/worker.js';
import { modelState, modelStates, servesNow } from './readiness.js';

const read = (page: string) => readFileSync(new URL(`../../../../docs/${page}.md`, import.meta.url), 'utf8');
const page = read('lifecycle');
const section = (title: string) => new RegExp(`## ${title}\n([^]*?)(?:\n## |$)`).exec(page)?.[1] ?? '';
const exits = [...section('A request').matchAll(/(?:→|,) (\d{3}) ([a-z-]+)/g)].map(([, status, reason]) => ({
  status: Number(status),
  reason: reason!,
}));

/** Errors whose reason is not their own but that of what lies behind. */
const byReason: Readonly<Record<string, readonly ErrorCode[]>> = {
  'bad-input': ['BAD_REQUEST', 'INVALID_PATH'],
  unauthorized: ['UNAUTHORIZED'],
  'input-too-large': ['PAYLOAD_TOO_LARGE'],
  'memory-full': ['OVERLOADED'],
  draining: ['DRAINING'],
  'workers-starting': ['MODEL_NOT_READY'],
  'not-found': ['MODEL_NOT_FOUND', 'MODEL_VERSION_NOT_FOUND'],
  'workers-too-few': ['MODEL_NOT_READY'],
  'handler-error': ['MODEL_NOT_READY', 'HANDLER_FAILED'],
  'queue-full': ['QUEUE_FULL'],
  'queue-timeout': ['DEADLINE_EXCEEDED'],
  'worker-died': ['WORKER_DIED'],
  'host-out-of-memory': ['WORKER_DIED'],
  'response-timeout': ['RESPONSE_TIMEOUT', 'REQUEST_TIMEOUT'],
  'device-out-of-memory': ['OUT_OF_MEMORY'],
  'not-implemented': ['NOT_IMPLEMENTED'],
  'serialisation-bound': ['RESPONSE_TOO_LARGE'],
};

describe('docs/lifecycle.md', () => {
  it.each(exits)('a request may end with $status $reason', ({ status, reason }) => {
    const statuses = (byReason[reason] ?? []).map((code) => torchServeError(new ServeError(code, '')).status);
    expect(statuses).toContain(status);
  });

  it('knows every reason that operations explain for a request of its own', () => {
    const rows = [...read('operations').matchAll(/^\| \d{3}[^|]* \| ([^|]+) \|/gm)].flatMap(([, reasons]) =>
      [...reasons!.matchAll(/`([a-z-]+)`/g)].map(([, reason]) => reason!),
    );
    const elsewhere = /^(?:internal|provider-missing|sequence-|too-many-)/;
    const known = new Set(exits.map(({ reason }) => reason));
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((reason) => !known.has(reason) && !elsewhere.test(reason))).toEqual([]);
  });

  it('has every state of a worker', () => {
    for (const state of workerStates) expect(section('A worker')).toContain(state);
  });

  it('has every exit code', () => {
    const named = [...section('A shutdown').matchAll(/exit code (\d)/gi)].map(([, code]) => Number(code));
    expect([...new Set(named)].sort((a, b) => a - b)).toEqual(Object.values(exitCodes));
  });

  it('has the states of a model and what each means for its readiness', () => {
    const rows = [...section('Readiness').matchAll(/^\| `([a-z-]+)` \|.*\| (\d{3}) \| (\d{3}) \|$/gm)];
    expect(rows.map(([, state]) => state)).toEqual([...modelStates]);
    for (const [, state, status] of rows) expect(servesNow(modelStates.find((it) => it === state)!)).toBe(status === '200');
    expect(modelState({ minWorkers: 0, places: [], loadedBefore: false, loadSeconds: undefined }, 0)).toBe('no-workers');
  });
});
