import { setTimeout as sleep } from 'node:timers/promises';
import { type BatchItem, type HandlerResult, PredictionError } from '@onnxserve/handler-kit';
import { inspect } from './inspect.js';
import { type Arguments, type Row, valueOf } from './row.js';

export const hostOutOfMemory = 'Failed to allocate memory for requested buffer of size 68719476736';

/** One call of the handler. */
export interface Call {
  readonly batch: ReadonlyArray<BatchItem<unknown>>;
  readonly rows: readonly Row[];
  /** Arguments of each row; the first row's decide. */
  readonly given: readonly Arguments[];
  readonly args: Arguments;
  /** Calls of this process before this one. */
  readonly n: number;
}

/** The list to return, or one value that each row of the batch gets. */
type Answer = { readonly list: unknown } | { readonly each: HandlerResult };
type Mode = (call: Call) => Answer | Promise<Answer>;

const number = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : Number(value ?? otherwise));
const text = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise);

function echo(row: Row): HandlerResult {
  const value = valueOf(row);
  if (value instanceof Uint8Array || typeof value === 'string') return value;
  if (value !== undefined && value !== null) return value as HandlerResult;
  const latin1 = [...row.values].map(([key, own]) => [
    key,
    own instanceof Uint8Array ? Buffer.from(own).toString('latin1') : own,
  ]);
  return JSON.stringify(Object.fromEntries(latin1), null, 2);
}

async function* chunks(args: Arguments): AsyncGenerator<string> {
  for (let i = 0; i < number(args.n, 3); i++) {
    yield `chunk${i};`;
    await sleep(number(args.ms, 20));
  }
  if (args.then === 'raise') throw new Error('raised after the last chunk');
  if (args.then === 'crash') process.exit(1);
  if (args.then === 'sleep') await sleep(number(args.then_ms, 1000));
  yield 'last;';
}

/** Modes without a branch here are unknown, which fails as any bug does. */
export const modes: Record<string, Mode> = {
  echo: ({ rows }) => ({ list: rows.map(echo) }),
  noop: () => ({ each: 'OK' }),
  str: () => ({ each: 'héllo' }),
  bytes: () => ({ each: Uint8Array.of(0, 1, 255, 254) }),
  json: () => ({ each: { a: 1, b: [1, 2.5, null, true], c: { d: 'é' } } }),
  list: () => ({ each: [1, 2, 3] }),
  int: () => ({ each: 42 }),
  float: () => ({ each: 3.5 }),
  none: () => ({ each: null }),
  bool: () => ({ each: true }),
  nan: () => ({ each: Number.NaN }),
  empty: () => ({ each: '' }),
  notlist: () => ({ list: { not: 'a list' } }),
  retnone: () => ({ list: undefined }),
  wronglen: ({ rows }) => ({ list: Array.from({ length: rows.length + 1 }, () => 'x') }),
  emptylist: () => ({ list: [] }),
  raise: ({ args }) => {
    throw new Error(text(args.msg, 'boom'));
  },
  prederr: ({ args }) => {
    throw new PredictionError(text(args.msg, 'custom prediction error'), number(args.code, 500));
  },
  // What the engine says when the host's and when the device's memory is short.
  memerr: () => {
    throw new Error(hostOutOfMemory);
  },
  cuda: () => {
    throw new Error('CUDA failure 2: out of memory ; CUDA out of memory');
  },
  sysexit: ({ args }) => process.exit(number(args.code, 3)),
  crash: ({ args }) => process.exit(number(args.code, 1)),
  kill9: async () => {
    process.kill(process.pid, 'SIGKILL');
    await sleep(60_000);
    return { each: 'survived' };
  },
  sleep: async ({ args }) => {
    await sleep(number(args.ms, 1000));
    return { each: 'slept' };
  },
  status: ({ batch, args }) => {
    for (const { ctx } of batch) ctx.response.status(number(args.code, 200));
    return { each: text(args.body, 'status body') };
  },
  headers: ({ batch, args }) => {
    for (const { ctx } of batch) {
      if (typeof args.ct === 'string') ctx.response.contentType(args.ct);
      for (const [name, value] of Object.entries((args.h ?? {}) as Record<string, string>)) ctx.response.header(name, value);
    }
    return { each: text(args.body, 'hdr body') };
  },
  badheader: ({ batch }) => {
    for (const { ctx } of batch) ctx.response.header('x-number', 5 as unknown as string);
    return { each: 'unreachable' };
  },
  stream: ({ batch, args }) => {
    if (typeof args.ct === 'string') for (const { ctx } of batch) ctx.response.contentType(args.ct);
    return { list: batch.map(() => chunks(args)) };
  },
  big: ({ args }) => ({ each: 'x'.repeat(number(args.size, 0)) }),
  pid: ({ n }) => ({ each: { pid: process.pid, n } }),
  log: ({ batch }) => {
    process.stdout.write('kit on stdout\n');
    batch[0]?.ctx.log.info('kit in the log');
    process.stderr.write('kit on stderr\n');
    return { each: 'logged' };
  },
  metrics: ({ batch }) => {
    emit(batch, 1);
    throw new Error('no such metric call');
  },
  metrics2: ({ batch }) => {
    emit(batch, 2);
    return { each: 'metrics2' };
  },
  inspect: ({ rows }) => ({ list: rows.map((row, index) => inspect(row, rows.length, index)) }),
  batch: async ({ rows, given }) => {
    await sleep(Math.max(...given.map((args) => number(args.ms, 0))));
    return { list: rows.map((_, index) => ({ batch: rows.length, index, pid: process.pid })) };
  },
};

function emit(batch: Call['batch'], count: number): void {
  const metrics = batch[0]?.ctx.metrics;
  metrics?.counter('KitCounter', count);
  metrics?.time('KitTime', 12.5, 'ms');
  metrics?.size('KitSize', 3, 'MB');
  metrics?.percent('KitPercent', 55.5);
}
