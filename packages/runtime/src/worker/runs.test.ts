import { type NamedTensors, Tensor } from '@onnxserve/handler-kit';
import { describe, expect, it } from 'vitest';
import { FakeSession, item, rows, valuesOf } from '../../test-support/worker.js';
import type { Item } from './item.js';
import { axisOf, RunPlanner } from './runs.js';

/** What became of each item: its values, or the message of its error. */
async function runAll(session: FakeSession, features: readonly unknown[], maxRows = 4) {
  const planner = new RunPlanner(session, axisOf(session), maxRows, 'm', false);
  const items = features.map((it, job) => item(job, it));
  for (const it of items) planner.prepare(it);
  const outcomes = new Map<Item, number[] | string>();
  const settle = (it: Item, outcome: number[] | string) => {
    expect(outcomes.has(it)).toBe(false);
    outcomes.set(it, outcome);
  };
  await planner.run(items, {
    done: (it, outputs: NamedTensors) => settle(it, valuesOf(outputs)),
    failed: (it, error) => settle(it, (error as Error).message),
  });
  return { outcomes: items.map((it) => outcomes.get(it)), batchSizes: items.map(({ batchSize }) => batchSize) };
}

describe('the batch axis of a model', () => {
  const session = (inputs: Array<Array<number | string>>, outputs: Array<Array<number | string>>) => ({
    inputs: inputs.map((shape, i) => ({ name: `i${i}`, datatype: 'FP32' as const, shape })),
    outputs: outputs.map((shape, i) => ({ name: `o${i}`, datatype: 'FP32' as const, shape })),
  });
  it.each<[string, Array<Array<number | string>>, Array<Array<number | string>>, string]>([
    ['one name everywhere', [['n', 3], ['n']], [['n', 2]], 'dynamic'],
    ['no names', [[-1, 3]], [[-1]], 'dynamic'],
    ['fixed', [[4, 3]], [[4]], 'fixed'],
    ['outputs of another length', [['n', 3]], [['found', 6]], 'none'],
    ['a scalar output', [['n', 3]], [[]], 'none'],
    ['no inputs', [], [[1]], 'none'],
    ['fixed in, free out', [[1, 3]], [['k']], 'none'],
  ])('%s', (_, inputs, outputs, kind) => {
    expect(axisOf(session(inputs, outputs) as never).kind).toBe(kind);
  });
});

describe('a dynamic axis', () => {
  it('runs several items together and gives each its own rows', async () => {
    const session = new FakeSession();
    const { outcomes, batchSizes } = await runAll(session, [rows(1), rows(2, 3), rows(4), rows(5, 6, 7, 8, 9)]);
    expect(outcomes).toEqual([[101], [102, 103], [104], [105, 106, 107, 108, 109]]);
    expect(session.runs).toEqual([
      [1, 2, 3, 4],
      [5, 6, 7, 8, 9],
    ]);
    expect(batchSizes).toEqual([3, 3, 3, 1]);
  });

  it('repeats a run that fails item by item', async () => {
    const { outcomes } = await runAll(new FakeSession(), [rows(1), rows(-2), rows(3)]);
    expect(outcomes).toEqual([[101], expect.stringContaining('out of data bounds'), [103]]);
  });
});

describe('a fixed axis of 4', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8, 9])('takes %i rows', async (count) => {
    const session = new FakeSession(4);
    const given = Array.from({ length: count }, (_, i) => i + 1);
    const { outcomes } = await runAll(session, [rows(...given)]);
    expect(outcomes).toEqual([given.map((value) => value + 100)]);
    expect(session.runs.every(({ length }) => length === 4)).toBe(true);
  });

  it('fails only who is to blame, whatever runs its rows were in', async () => {
    const { outcomes } = await runAll(new FakeSession(4), [rows(1, 2, 3), rows(4, -5, 6), rows(7, 8, 9)]);
    expect(outcomes).toEqual([[101, 102, 103], expect.stringContaining('out of data bounds'), [107, 108, 109]]);
  });

  it('answers an item without rows', async () => {
    const { outcomes } = await runAll(new FakeSession(4), [rows(), rows(1)]);
    expect(outcomes[0]).toEqual(expect.stringContaining('no rows'));
    expect(outcomes[1]).toEqual([101]);
  });
});

it('runs one by one from then on when a model returns other rows than it got', async () => {
  class Odd extends FakeSession {
    override async run(feeds: NamedTensors): Promise<NamedTensors> {
      const all = await super.run(feeds);
      return valuesOf(all).length > 1 ? { y: new Tensor('FP32', [1, 1], Float32Array.of(0)) } : all;
    }
  }
  const { outcomes } = await runAll(new Odd(), [rows(1), rows(2), rows(3)]);
  expect(outcomes).toEqual([[101], [102], [103]]);
});

it.each([undefined, null, 5, {}, { x: [1] }])('refuses %j from preprocess', (features) => {
  const session = new FakeSession();
  const planner = new RunPlanner(session, axisOf(session), 4, 'm', false);
  expect(() => planner.prepare(item(1, features))).toThrow('object of tensors');
});

describe('runs that overtake each other', () => {
  /** Each run ends when it is let go. */
  class HeldSession extends FakeSession {
    readonly letGo: Array<() => void> = [];
    override async runRows(pieces: readonly NamedTensors[]): Promise<NamedTensors> {
      const held = new Promise<void>((resolve) => this.letGo.push(resolve));
      const answer = this.run(pieces[0]!);
      await held;
      return await answer;
    }
  }

  it('leave the rows of a request in their order', async () => {
    const session = new HeldSession(1);
    const all = runAll(session, [rows(1, 2)]);
    await expect.poll(() => session.letGo.length).toBe(2);
    session.letGo[1]!();
    await Promise.resolve();
    session.letGo[0]!();
    expect((await all).outcomes).toEqual([[101, 102]]);
  });

  it('settle a request once, although one of its runs failed', async () => {
    const session = new HeldSession(1);
    const all = runAll(session, [rows(-1, 2, 3)]);
    await expect.poll(() => session.letGo.length).toBe(2);
    session.letGo[0]!();
    session.letGo[1]!();
    expect((await all).outcomes).toEqual([expect.stringContaining('out of data bounds')]);
  });
});

describe('inputs that may be padded', () => {
  const pad = { ids: { value: 0n }, mask: { value: 0n } };
  const text = (...ids: number[]): NamedTensors => ({
    ids: new Tensor('INT64', [1, ids.length], BigInt64Array.from(ids, BigInt)),
    mask: new Tensor('INT64', [1, ids.length], new BigInt64Array(ids.length).fill(1n)),
  });

  /** Gives each id back plus 100, where the mask is set, and their sum. */
  class Tokens extends FakeSession {
    override readonly inputs = ['ids', 'mask'].map((name) => ({ name, datatype: 'INT64' as const, shape: ['n', 'length'] }));
    override readonly outputs = [
      { name: 'each', datatype: 'INT64' as const, shape: ['n', 'length'] },
      { name: 'sum', datatype: 'INT64' as const, shape: ['n', 1] },
    ];
    readonly shapes: Array<readonly number[]> = [];
    override run({ ids, mask }: NamedTensors): Promise<NamedTensors> {
      this.shapes.push(ids!.shape);
      const [rowCount, length] = ids!.shape as [number, number];
      const [values, masks] = [ids!.data as BigInt64Array, mask!.data as BigInt64Array];
      const each = values.map((value, at) => (value + 100n) * masks[at]!);
      const sum = new BigInt64Array(rowCount);
      each.forEach((value, at) => (sum[Math.floor(at / length)]! += value));
      return Promise.resolve({
        each: new Tensor('INT64', [rowCount, length], each),
        sum: new Tensor('INT64', [rowCount, 1], sum),
      });
    }
  }

  async function answers(session: Tokens, features: readonly NamedTensors[], adaptive: boolean) {
    const planner = new RunPlanner(session, axisOf(session), 4, 'm', adaptive, pad);
    const items = features.map((it, job) => item(job, it));
    for (const it of items) planner.prepare(it);
    const outcomes = new Map<Item, unknown>();
    await planner.run(items, {
      done: (it, outputs) =>
        void outcomes.set(it, [Array.from(outputs['each']!.data as BigInt64Array, Number), Number(outputs['sum']!.data[0])]),
      failed: (it, error) => void outcomes.set(it, error),
    });
    return items.map((it) => outcomes.get(it));
  }

  it('share a run, and each request gets what it would get alone', async () => {
    const session = new Tokens();
    const features = [text(1), text(2, 3, 4), text(5, 6)];
    const expected = [
      [[101], 101],
      [[102, 103, 104], 309],
      [[105, 106], 211],
    ];
    expect(await answers(session, features, false)).toEqual(expected);
    expect(session.shapes).toEqual([[3, 3]]);
    expect(await answers(new Tokens(), features, true)).toEqual(expected);
  });

  it('are not padded where that would cost more than a run of their own', async () => {
    const session = new Tokens();
    const long = text(...Array.from({ length: 200 }, (_, at) => at));
    await answers(session, [text(1, 2), long, text(3, 4), text(5)], true);
    expect(session.shapes).toEqual([
      [3, 2],
      [1, 200],
    ]);
  });

  it('must be inputs of the model', () => {
    const session = new Tokens();
    expect(() => new RunPlanner(session, axisOf(session), 4, 'm', true, { idz: { value: 0 } })).toThrow(
      'pad of model "m" names idz; the model\'s inputs are ids, mask',
    );
  });
});
