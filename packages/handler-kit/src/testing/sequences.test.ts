import { describe, expect, it } from 'vitest';
import { defineHandler, done, more, PredictionError } from '../index.js';
import { request, runHandler } from './index.js';

const said = (text: string, id: string, marks: { start?: boolean; end?: boolean } = {}) =>
  request({ body: text, sequence: { id, ...marks } });

describe('sequences', () => {
  const ends: string[] = [];
  const chat = defineHandler({
    startSequence: ({ sequence }) => Promise.resolve([sequence.id]),
    preprocess(it, ctx) {
      if (it.text() === 'bad') throw new PredictionError('bad word', 400);
      ctx.sequence.state.push(it.text());
      return ctx.sequence.state.join(' ');
    },
    inference: (batch) => batch.map((words) => `${words} (${batch.length})`),
    endSequence: (words, reason) => void ends.push(`${words.join(' ')}: ${reason}`),
  });

  it('keep their state, one of each in a batch, until their end mark or the end', async () => {
    ends.length = 0;
    const results = await runHandler(chat, [
      said('1', 'a', { start: true }),
      said('2', 'a'),
      said('x', 'b'),
      said('bad', 'b'),
      said('3', 'a', { end: true }),
      said('4', 'a'),
      said('y', 'b', { start: true }),
    ]);
    expect(results.map((it) => (it.ok ? it.text() : it.status))).toEqual([
      'a 1 (2)',
      'a 1 2 (1)',
      'b x (2)',
      400,
      'a 1 2 3 (2)',
      'a 4 (1)',
      'b y (2)',
    ]);
    expect(ends.toSorted((a, b) => a.localeCompare(b))).toEqual(['a 1 2 3: end', 'a 4: stop', 'b x: restart', 'b y: stop']);
  });

  it('are missing where a request belongs to none', async () => {
    const [result] = await runHandler(chat, ['x']);
    expect(result).toMatchObject({ status: 500, error: { message: expect.stringContaining('sequenceBatching') } });
  });

  it('a whole batch sees them too', async () => {
    const handler = defineHandler({
      startSequence: () => ({ seen: 0 }),
      handle: (batch) => batch.map(({ request: it, ctx }) => `${it.sequence?.id} ${++ctx.sequence.state.seen}`),
    });
    const results = await runHandler(handler, [said('', 'a'), said('', 'b'), said('', 'a')]);
    expect(results.map((it) => it.ok && it.text())).toEqual(['a 1', 'b 1', 'a 2']);
  });

  it('fails with what endSequence throws', async () => {
    const handler = defineHandler({
      startSequence: () => 1,
      handle: (batch) => batch.map(() => 'ok'),
      endSequence: () => {
        throw new Error('cannot end');
      },
    });
    await expect(runHandler(handler, [said('', 'a')])).rejects.toThrow('cannot end');
  });
});

describe('steps', () => {
  const released: number[] = [];
  const counting = defineHandler({
    preprocess: (it) => Number(it.text()),
    step: (batch) =>
      batch.map((item) => {
        if (item.job < 0) return new PredictionError('negative', 422);
        return item.steps + 1 < item.job ? more(`${item.steps + 1}/${batch.length} `) : done(`${item.job}/${batch.length}`);
      }),
    release: (job) => void released.push(job),
  });

  it('run until each request is done; others join when there is room', async () => {
    released.length = 0;
    const results = await runHandler(counting, ['3', '1', '-1', '2'], { batchSize: 2 });
    expect(results.map((it) => (it.ok ? it.text() : it.status))).toEqual(['1/2 2/2 3/2', '1/2', 422, '1/2 2/1']);
    expect(results[0]).toMatchObject({ chunks: [Buffer.from('1/2 '), Buffer.from('2/2 '), Buffer.from('3/2')] });
    expect(results[1]).toMatchObject({ chunks: undefined });
    expect(released).toEqual([1, -1, 3, 2]);
  });

  it('fail together when a step throws', async () => {
    const handler = defineHandler({
      step: () => {
        throw new Error('no');
      },
    });
    expect((await runHandler(handler, ['a', 'b'])).map(({ ok }) => ok)).toEqual([false, false]);
  });

  it('are told when the number of results is wrong', async () => {
    const [result] = await runHandler(defineHandler({ step: () => [] }), ['a']);
    expect(result).toMatchObject({ error: { message: expect.stringContaining('expected 1, got 0') } });
  });

  it('keep the state of sequences', async () => {
    const handler = defineHandler({
      startSequence: () => ({ steps: 0 }),
      step: (batch) =>
        batch.map(({ ctx, steps }) => (++ctx.sequence.state.steps && steps === 0 ? more() : done(ctx.sequence.state))),
    });
    const results = await runHandler(handler, [said('', 'a'), said('', 'b'), said('', 'a')]);
    expect(results.map((it) => it.ok && it.json())).toEqual([{ steps: 2 }, { steps: 2 }, { steps: 4 }]);
  });
});
