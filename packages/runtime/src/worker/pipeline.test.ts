import { defineHandler, PredictionError, respond } from '@onnxserve/handler-kit';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { context, FakeConnection, FakeSession, rows, valuesOf, wire } from '../../test-support/worker.js';
import type { WireItem } from '../ipc/messages.js';
import { Pipeline, type PipelineOptions } from './pipeline.js';
import { axisOf } from './runs.js';

const never = new Promise<never>(() => undefined);
const numbers = defineHandler({
  preprocess: (request) => {
    const order = request.json() as { values: number[]; fail?: string };
    if (order.fail === 'preprocess') throw new Error('no');
    if (order.fail === 'client') throw new PredictionError('your fault', 400);
    return rows(...order.values);
  },
  postprocess: (outputs) => {
    if (valuesOf(outputs)[0] === 199) throw new Error('cannot say 99');
    return valuesOf(outputs);
  },
});

function make(changes: Partial<PipelineOptions> = {}) {
  const connection = new FakeConnection();
  const session = new FakeSession();
  const pipeline = new Pipeline({
    model: 'm',
    handler: numbers as never,
    session,
    axis: axisOf(session),
    batchSize: 4,
    adaptive: false,
    responseTimeout: 10,
    maxRequestSize: 1e6,
    maxResponseSize: 1000,
    envelope: undefined,
    context,
    connection: connection.as,
    ...changes,
  });
  let batch = 0;
  let job = 0;
  const send = (...orders: unknown[]) => {
    const bodies = orders.map((order) => Buffer.from(JSON.stringify(order)));
    const wires = bodies.map(({ length }) => wire(++job, length));
    pipeline.accept(++batch, wires, Buffer.concat(bodies));
  };
  const sendWire = (changed: Partial<WireItem>) => pipeline.accept(++batch, [wire(++job, 0, changed)], Buffer.alloc(0));
  return { connection, session, pipeline, send, sendWire };
}

afterEach(() => void vi.useRealTimers());

describe('staged handlers', () => {
  it('run a batch in one run and answer each its own', async () => {
    const { connection, session, send, pipeline } = make();
    send({ values: [1] }, { values: [2, 3] });
    expect(await connection.answered(2)).toEqual({ 1: '[101]', 2: '[102,103]' });
    expect(session.runs).toEqual([[1, 2, 3]]);
    expect(connection.types('run')).toEqual([{ type: 'run', jobs: [1, 2], rows: 3 }]);
    expect(pipeline.idle).toBe(true);
  });

  it('fail item by item at every stage', async () => {
    const { connection, send } = make();
    const good = { values: [1] };
    send(good, { values: [1], fail: 'preprocess' }, { values: [1], fail: 'client' }, { values: [-1] });
    send({ values: [99] }, good, 'no order');
    expect(await connection.answered(7)).toEqual({
      1: '[101]',
      2: 'HANDLER_FAILED',
      3: 'PREDICTION_ERROR',
      4: 'PREDICTION_ERROR',
      5: 'HANDLER_FAILED',
      6: '[101]',
      7: 'HANDLER_FAILED',
    });
  });

  it('answer what is too large with the limit', async () => {
    const { connection, send } = make();
    send({ values: Array.from({ length: 1000 }, () => 1) });
    expect(await connection.answered(1)).toEqual({ 1: 'RESPONSE_TOO_LARGE' });
  });

  it('have no explain stage unless they say so', async () => {
    const { connection, sendWire } = make();
    sendWire({ kind: 'explain' });
    expect(await connection.answered(1)).toEqual({ 1: 'PREDICTION_ERROR' });
  });
});

describe('items that nobody waits for', () => {
  it('are not begun when their deadline has passed', async () => {
    const { connection, session, sendWire } = make();
    sendWire({ deadline: 1 });
    expect(await connection.answered(1)).toEqual({ 1: 'DEADLINE_EXCEEDED' });
    expect(session.runs).toEqual([]);
  });

  it('are dropped at the next border between stages', async () => {
    const { connection, session, pipeline, send } = make();
    let open!: () => void;
    session.gate = new Promise((resolve) => (open = resolve));
    send({ values: [1] });
    send({ values: [2] });
    pipeline.cancel([1, 2]);
    open();
    expect(await connection.answered(2)).toEqual({ 1: 'CANCELLED', 2: 'CANCELLED' });
    expect(session.runs).toEqual([[1]]);
  });

  it('go back when they are recalled, the latest first, and nothing of them is left', async () => {
    const { connection, session, pipeline, send } = make();
    let open!: () => void;
    session.gate = new Promise((resolve) => (open = resolve));
    send({ values: [1] });
    send({ values: [2] }, { values: [3] }, { values: [4] });
    expect(pipeline.recall(2)).toEqual([4, 3]);
    open();
    expect(await connection.answered(2)).toEqual({ 1: '[101]', 2: '[102]' });
    expect(pipeline.idle).toBe(true);
  });
});

describe('handlers that hang', () => {
  it.each(['preprocess', 'postprocess', 'describe'] as const)('in %s lose that item only', async (stage) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'hrtime'] });
    let hangs = true;
    const handler = {
      ...numbers,
      [stage]: (...args: unknown[]) => {
        if (hangs || stage === 'describe') return never;
        return (numbers as unknown as Record<string, (...all: unknown[]) => unknown>)[stage]!(...args);
      },
    };
    const { connection, send, sendWire, pipeline } = make({ handler: handler as never });
    if (stage === 'describe') sendWire({ kind: 'describe' });
    else send({ values: [1] });
    if (stage === 'postprocess') await connection.until(() => connection.types('run').length > 0);
    await vi.advanceTimersByTimeAsync(11_000);
    expect(await connection.answered(1)).toEqual({ 1: 'RESPONSE_TIMEOUT' });
    hangs = false;
    send({ values: [2] });
    expect((await connection.answered(2))[2]).toBe('[102]');
    expect(pipeline.idle).toBe(true);
  });
});

describe('whole batches', () => {
  const whole = (handle: (batch: ReadonlyArray<{ request: { json(): unknown } }>) => unknown) =>
    make({ handler: { handle } as never, session: undefined });

  it("take an error in an item's place as its answer", async () => {
    const { connection, send } = whole((batch) => batch.map(({ request }) => (request.json() === 2 ? new Error('two') : 'ok')));
    send(1, 2, 3);
    expect(await connection.answered(3)).toEqual({ 1: 'ok', 2: 'HANDLER_FAILED', 3: 'ok' });
  });

  it.each([[[]], ['text'], [undefined], [['a', 'b', 'c']]])('answer all when %j comes back for two', async (result) => {
    const { connection, send } = whole(() => result);
    send(1, 2);
    expect(await connection.answered(2)).toEqual({ 1: 'HANDLER_FAILED', 2: 'HANDLER_FAILED' });
    const { message } = connection.said.find(({ message: it }) => it.type === 'results')!;
    expect(JSON.stringify(message)).toContain('expected 2, got');
  });
});

describe('streams', () => {
  const streaming = (chunks: () => AsyncIterable<Uint8Array>) =>
    make({ handler: { handle: (batch: unknown[]) => batch.map(() => respond(chunks())) } as never, session: undefined });
  const ended = (connection: FakeConnection) => connection.until(() => connection.types('stream-end').length > 0);

  it('go no faster than they are taken', async () => {
    let made = 0;
    const { connection, send, pipeline } = streaming(async function* () {
      for (; made < 10; made++) yield Buffer.alloc(512 * 1024);
    });
    send(1);
    await connection.until(() => connection.types('stream-chunk').length === 2);
    await new Promise((resolve) => setImmediate(resolve));
    expect(connection.types('stream-chunk')).toHaveLength(2);
    for (let i = 0; i < 10; i++) {
      pipeline.outbox.taken(1, 512 * 1024);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await ended(connection);
    expect(connection.types('stream-chunk')).toHaveLength(10);
    expect(pipeline.idle).toBe(true);
  });

  it('end when the client leaves, also while the generator hangs', async () => {
    const { connection, send, pipeline } = streaming(async function* () {
      yield Buffer.from('a');
      await never;
    });
    send(1);
    await connection.until(() => connection.types('stream-chunk').length === 1);
    pipeline.cancel([1]);
    await ended(connection);
    await new Promise((resolve) => setImmediate(resolve));
    expect(pipeline.idle).toBe(true);
  });

  it('end with the error of the generator', async () => {
    const { connection, send } = streaming(async function* () {
      yield Buffer.from('a');
      throw new Error('broke');
    });
    send(1);
    await ended(connection);
    expect(connection.types('stream-end')[0]).toMatchObject({ error: { code: 'HANDLER_FAILED' } });
  });
});

describe('requests of several parts', () => {
  const kserve = { envelope: 'kserve' } as const;
  const instances = (...lists: number[][]) => ({ instances: lists.map((values) => ({ values })) });

  it('share runs of batchSize with others, and are one answer each', async () => {
    const { connection, session, send, pipeline } = make({ ...kserve, batchSize: 2 });
    send(instances([1], [2], [3]), instances([4]));
    expect(await connection.answered(2)).toEqual({ 1: '{"predictions":[[101],[102],[103]]}', 2: '{"predictions":[[104]]}' });
    expect(session.runs.flat().toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
    expect(session.runs.every((run) => run.length <= 2)).toBe(true);
    expect(connection.types('run').flatMap((message) => (message.type === 'run' ? message.jobs : []))).toEqual([1, 1, 1, 2]);
    expect(pipeline.idle).toBe(true);
  });

  it('the first that fails is the answer, told once; the mates of other requests are served', async () => {
    const { connection, send, pipeline } = make(kserve);
    send({ instances: [{ values: [1] }, { values: [], fail: 'client' }, { values: [], fail: 'preprocess' }] }, instances([5]));
    expect(await connection.answered(2)).toEqual({ 1: 'PREDICTION_ERROR', 2: '{"predictions":[[105]]}' });
    await vi.waitFor(() => expect(pipeline.idle).toBe(true));
    const results = connection.types('results').flatMap((message) => (message.type === 'results' ? message.items : []));
    expect(results).toHaveLength(2);
    expect(results.find(({ ok }) => !ok)).toMatchObject({ error: { status: 400, message: 'instance 1: your fault' } });
  });

  it('are not given back in pieces', () => {
    const { connection, send, pipeline } = make({ ...kserve, handler: defineHandler({ preprocess: () => never }) as never });
    send(instances([1], [2]));
    expect(pipeline.recall(5)).toEqual([]);
    expect(connection.types('results')).toEqual([]);
  });

  it('let go of what they hold when their client leaves', async () => {
    const waits: Array<() => void> = [];
    const handler = defineHandler({
      preprocess: async () => {
        await new Promise<void>((resolve) => waits.push(resolve));
        return rows(1);
      },
    });
    const { connection, session, send, pipeline } = make({ ...kserve, handler: handler as never });
    send(instances([1], [2]));
    pipeline.cancel([1]);
    for (const go of waits) go();
    expect(await connection.answered(1)).toEqual({ 1: 'CANCELLED' });
    await vi.waitFor(() => expect(pipeline.idle).toBe(true));
    expect(session.runs).toEqual([]);
  });

  it('expire as one', async () => {
    const { connection, sendWire, pipeline } = make(kserve);
    sendWire({ deadline: 1 });
    expect(await connection.answered(1)).toEqual({ 1: 'DEADLINE_EXCEEDED' });
    expect(pipeline.idle).toBe(true);
  });
});
