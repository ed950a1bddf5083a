import { defineHandler, done, more, PredictionError, type StepResult } from '@onnxserve/handler-kit';
import { SequenceStates } from '@onnxserve/handler-kit/internal';
import { describe, expect, it } from 'vitest';
import { context, FakeConnection, wire } from '../../test-support/worker.js';
import { monotonicNow } from '../domain/request.js';
import type { WireItem } from '../ipc/messages.js';
import { Stepper, type StepperOptions } from './stepper.js';

interface Job {
  readonly name: string;
  /** Steps that it takes. */
  readonly steps: number;
  /** Told to the client at every step. */
  readonly tells?: boolean;
  readonly fails?: 'preprocess' | 'alone' | 'all' | 'never';
}

/** A handler that stops before every step until it is told to go on. */
function make(changes: Partial<StepperOptions> = {}) {
  const connection = new FakeConnection();
  const steps: string[] = [];
  const released: string[] = [];
  const reached: Array<() => void> = [];
  let go: (() => void) | undefined;
  const handler = defineHandler({
    preprocess(request): Job | Promise<Job> {
      const job = request.json() as Job;
      if (job.fails === 'preprocess') throw new PredictionError('not this one', 400);
      return job.fails === 'never' ? new Promise<never>(() => undefined) : job;
    },
    async step(batch): Promise<Array<StepResult | Error>> {
      steps.push(batch.map(({ job }) => job.name).join(''));
      await new Promise<void>((resolve) => {
        go = resolve;
        for (const it of reached.splice(0)) it();
      });
      if (batch.some(({ job }) => job.fails === 'all')) throw new Error('all of them');
      return batch.map(({ job, steps: before }) => {
        if (job.fails === 'alone') return new PredictionError('told to fail', 422);
        if (before + 1 < job.steps) return more(job.tells ? `${before + 1} ` : undefined);
        return done(job.tells ? 'end' : `${job.name} after ${before + 1}`);
      });
    },
    release: (job) => void released.push(job.name),
  });
  const options: StepperOptions = {
    model: 'm',
    handler: handler as never,
    batchSize: 2,
    responseTimeout: 10,
    maxRequestSize: 1e6,
    maxResponseSize: 1000,
    envelope: undefined,
    context,
    connection: connection.as,
    ...changes,
  };
  const stepper = new Stepper(options);
  let number = 0;
  const send = (job: Job, changed: Partial<WireItem> = {}) => {
    const body = Buffer.from(JSON.stringify(job));
    stepper.accept(++number, [wire(number, body.length, changed)], body);
    return number;
  };
  /** Waits until the handler is in its next step. */
  const inStep = async () => {
    if (go === undefined) await new Promise<void>((resolve) => void reached.push(resolve));
  };
  /** Lets the step end, and waits for what comes of it. */
  const next = async () => {
    await inStep();
    const resolve = go!;
    go = undefined;
    resolve();
  };
  const chunks = (job: number) =>
    connection.said
      .filter(({ message }) => message.type === 'stream-chunk' && message.job === job)
      .map(({ blobs }) => blobs.toString())
      .join('');
  const ended = (job: number) => connection.types('stream-end').find((message) => 'job' in message && message.job === job);
  return { connection, stepper, steps, released, send, inStep, next, chunks, ended };
}

describe('a running batch', () => {
  it('is joined between steps, up to batchSize, and left by those that are done', async () => {
    const { send, inStep, next, steps, connection, released, stepper } = make();
    send({ name: 'a', steps: 3 });
    await inStep();
    send({ name: 'b', steps: 1 });
    send({ name: 'c', steps: 1 });
    for (let step = 0; step < 3; step++) await next();
    expect(await connection.answered(3)).toEqual({ 1: 'a after 3', 2: 'b after 1', 3: 'c after 1' });
    expect(steps).toEqual(['a', 'ab', 'ac']);
    expect(released.toSorted()).toEqual(['a', 'b', 'c']);
    expect(connection.types('run').map((message) => 'rows' in message && message.rows)).toEqual([1, 2, 2]);
    expect(stepper.idle).toBe(true);
  });

  it('streams what each step tells, and answers those that tell nothing whole', async () => {
    const { send, next, chunks, ended, connection } = make();
    send({ name: 'a', steps: 3, tells: true });
    send({ name: 'b', steps: 2 });
    for (let step = 0; step < 3; step++) await next();
    await connection.until(() => ended(1) !== undefined);
    expect(chunks(1)).toBe('1 2 end');
    expect(ended(1)).not.toHaveProperty('error');
    expect(connection.answers).toEqual({ 2: 'b after 2' });
  });

  it('goes on without one that fails alone', async () => {
    const { send, next, steps, connection, released } = make();
    send({ name: 'a', steps: 2 });
    send({ name: 'b', steps: 2, fails: 'alone' });
    await next();
    await next();
    expect(await connection.answered(2)).toEqual({ 1: 'a after 2', 2: 'PREDICTION_ERROR' });
    expect(steps).toEqual(['ab', 'a']);
    expect(released.toSorted()).toEqual(['a', 'b']);
  });

  it('ends with a step that throws; a stream that had begun is broken, and the next batch runs', async () => {
    const { send, next, ended, connection } = make();
    send({ name: 'a', steps: 3, tells: true });
    await next();
    send({ name: 'b', steps: 1, fails: 'all' });
    await next();
    await connection.until(() => ended(1) !== undefined);
    expect(ended(1)).toMatchObject({ error: { code: 'HANDLER_FAILED' } });
    send({ name: 'c', steps: 1 });
    await next();
    await connection.until(() => connection.answers[3] !== undefined);
    expect(connection.answers).toMatchObject({ 2: 'HANDLER_FAILED', 3: 'c after 1' });
  });

  it.each([
    ['too few', [], /must return one result/],
    ['something else', [42], /failed in inference/],
  ])('refuses %s', async (_, results, message) => {
    const handler = defineHandler({ step: () => results as never });
    const { stepper, connection } = make({ handler: handler as never });
    stepper.accept(1, [wire(1)], Buffer.alloc(0));
    await connection.answered(1);
    const [answer] = connection.types('results');
    expect(JSON.stringify(answer)).toMatch(message);
  });
});

describe('requests that nobody waits for', () => {
  it('leave at the next step: one that is answered whole, one that streams, one that is ready', async () => {
    const { send, inStep, next, steps, stepper, connection, released, ended } = make();
    const whole = send({ name: 'a', steps: 9 });
    const stream = send({ name: 'b', steps: 9, tells: true });
    await next();
    await inStep();
    const ready = send({ name: 'c', steps: 9 });
    stepper.cancel([whole, stream, ready]);
    await next();
    await connection.until(() => ended(stream) !== undefined && connection.answers[ready] !== undefined);
    expect(connection.answers).toEqual({ [whole]: 'CANCELLED', [ready]: 'CANCELLED' });
    expect(steps).toEqual(['ab', 'ab']);
    expect(released.toSorted()).toEqual(['a', 'b', 'c']);
    expect(stepper.idle).toBe(true);
  });

  it('leave when their deadline has passed', async () => {
    const { send, inStep, next, connection } = make();
    const deadline = monotonicNow() + 500e6;
    send({ name: 'a', steps: 9 }, { deadline });
    await inStep();
    while (monotonicNow() <= deadline) await new Promise((resolve) => setTimeout(resolve, 5));
    send({ name: 'b', steps: 1 });
    await next();
    await next();
    await connection.answered(2);
    expect(connection.answers).toEqual({ 1: 'DEADLINE_EXCEEDED', 2: 'b after 1' });
  });

  it('keep their place and pause while their client takes nothing', async () => {
    const big = 'x'.repeat(700_000);
    const steps: number[] = [];
    const handler = defineHandler({
      preprocess: (request) => request.json() as { steps: number; big: boolean },
      step(batch) {
        steps.push(batch.length);
        return batch.map(({ job, steps: before }) => (before + 1 < job.steps ? more(job.big ? big : '.') : done('end')));
      },
    });
    const { connection, ended, stepper, chunks, send } = make({ handler: handler as never });
    const slow = send({ steps: 4, big: true } as never);
    const quick = send({ steps: 20 } as never);
    await connection.until(() => ended(quick) !== undefined);
    expect(ended(slow)).toBeUndefined();
    expect(chunks(slow)).toHaveLength(2 * big.length);
    // Two chunks filled the window, the third waits: from then on the other one steps alone.
    expect(steps.filter((batch) => batch === 2)).toHaveLength(3);
    stepper.outbox.taken(slow, 2 * big.length);
    await connection.until(() => ended(slow) !== undefined);
    expect(chunks(slow).endsWith('end')).toBe(true);
  });
});

it('a preprocess that fails or hangs concerns nobody else', async () => {
  const { send, next, connection } = make({ responseTimeout: 0.01 });
  send({ name: 'a', steps: 1, fails: 'preprocess' });
  send({ name: 'b', steps: 1, fails: 'never' });
  send({ name: 'c', steps: 1 });
  await next();
  expect(await connection.answered(3)).toEqual({ 1: 'PREDICTION_ERROR', 2: 'RESPONSE_TIMEOUT', 3: 'c after 1' });
});

it('gives back what is in no step yet, the latest first', async () => {
  const { send, inStep, stepper, released, next, connection } = make();
  for (const name of ['a', 'b', 'c', 'd']) send({ name, steps: 1 });
  await inStep();
  expect(stepper.recall(9)).toEqual([4, 3]);
  expect(released).toEqual(['d', 'c']);
  await next();
  expect(await connection.answered(2)).toEqual({ 1: 'a after 1', 2: 'b after 1' });
});

it('has no explanations', async () => {
  const { send, connection } = make();
  send({ name: 'a', steps: 1 }, { kind: 'explain' });
  expect(await connection.answered(1)).toEqual({ 1: 'PREDICTION_ERROR' });
});

it('keeps the state of a sequence over its requests', async () => {
  const ends: string[] = [];
  const handler = defineHandler({
    startSequence: ({ sequence }) => Promise.resolve({ id: sequence.id, seen: 0 }),
    step: (batch) => batch.map(({ ctx }) => done(`${ctx.sequence.state.id} ${++ctx.sequence.state.seen}`)),
    endSequence: (state, reason) => void ends.push(`${state.id} ${state.seen} ${reason}`),
  });
  const states = new SequenceStates(handler as never, context, () => undefined);
  const { stepper, connection } = make({ handler: handler as never, sequences: states });
  const sequence = { number: 7, id: 's', start: false, end: false };
  for (const job of [1, 2]) {
    stepper.accept(job, [wire(job, 0, { sequence })], Buffer.alloc(0));
    await connection.answered(job);
  }
  expect(connection.answers).toEqual({ 1: 's 1', 2: 's 2' });
  await states.end(7, 'idle');
  expect(ends).toEqual(['s 2 idle']);
});
