import { describe, expect, it } from 'vitest';
import { collate, rowsOf, shapeKey, split } from './collate.js';
import { tensor, toArray } from './convert.js';
import type { BytesElement } from './datatype.js';
import { type NamedTensors, zeros } from './tensor.js';

const item = (rows: number, from = 0): NamedTensors => ({
  x: tensor(
    'FP32',
    [rows, 2],
    Array.from({ length: rows * 2 }, (_, at) => from + at),
  ),
  s: tensor(
    'BYTES',
    [rows],
    Array.from({ length: rows }, (_, at) => `${from + at}`),
  ),
});

describe('collate', () => {
  it('joins along the first axis and split undoes it', () => {
    const items = [item(1, 0), item(3, 10), item(0), item(2, 50)];
    const batch = collate(items);
    expect(batch['x']!.shape).toEqual([6, 2]);
    const parts = split(batch, items.map(rowsOf));
    expect(parts.map((part) => toArray(part['x']!))).toEqual(items.map((it) => toArray(it['x']!)));
    expect(parts.map((part) => toArray(part['s']!))).toEqual(items.map((it) => toArray(it['s']!)));
    expect(parts.map((part) => part['x']!.shape)).toEqual([
      [1, 2],
      [3, 2],
      [0, 2],
      [2, 2],
    ]);
  });

  it('gives views, without a copy', () => {
    const batch = collate([item(1), item(2)]);
    for (const part of split(batch, [1, 2]))
      expect((part['x']!.data as Float32Array).buffer).toBe((batch['x']!.data as Float32Array).buffer);
  });

  it('leaves a single item alone', () => {
    const only = item(2);
    expect(collate([only])).toBe(only);
    expect(split(only, [5])[0]).toBe(only);
    expect(() => collate([])).toThrow(RangeError);
  });

  it.each<[string, NamedTensors, NamedTensors, string]>([
    ['another name', { a: zeros('FP32', [1]) }, { b: zeros('FP32', [1]) }, '"a"'],
    ['one name more', { a: zeros('FP32', [1]) }, { a: zeros('FP32', [1]), b: zeros('FP32', [1]) }, '"b"'],
    ['another datatype', { a: zeros('FP32', [1]) }, { a: zeros('INT64', [1]) }, 'FP32 in one request of the batch and INT64'],
    ['other trailing dimensions', { a: zeros('FP32', [1, 7]) }, { a: zeros('FP32', [1, 8]) }, '[1, 7]'],
    ['another rank', { a: zeros('FP32', [1, 1]) }, { a: zeros('FP32', [1]) }, '[1, 1]'],
    ['another scalar', { a: tensor('INT64', [], 1) }, { a: tensor('INT64', [], 2) }, 'scalar'],
  ])('refuses %s', (_, first, second, why) => {
    expect(() => collate([first, second])).toThrow(
      expect.objectContaining({ status: 400, message: expect.stringContaining(why) }),
    );
  });

  it('shares an equal scalar', () => {
    const rate = { x: zeros('FP32', [1, 4]), rate: tensor('INT64', [], 16000) };
    const batch = collate([rate, rate]);
    expect(batch['rate']!.shape).toEqual([]);
    expect(batch['x']!.shape).toEqual([2, 4]);
    expect(split(batch, [1, 1])[1]!['rate']!.data).toEqual(BigInt64Array.of(16000n));
  });

  it('joins bytes that are no text', () => {
    const bytes: BytesElement[] = [Buffer.from([0xff]), 'a'];
    expect(collate([{ b: tensor('BYTES', [2], bytes) }, { b: tensor('BYTES', [2], bytes) }])['b']!.data).toEqual([
      ...bytes,
      ...bytes,
    ]);
  });
});

it('refuses to split an output whose first axis is not the batch', () => {
  expect(() => split({ y: zeros('FP32', [5, 4]) }, [1, 1])).toThrow('"y" has shape [5, 4], but the batch has 2 rows');
});

it('groups by datatype and trailing dimensions, in any order of names', () => {
  const key = shapeKey({ a: zeros('FP32', [1, 7]), b: zeros('INT64', [1]) });
  expect(shapeKey({ b: zeros('INT64', [4]), a: zeros('FP32', [4, 7]) })).toBe(key);
  expect(shapeKey({ a: zeros('FP32', [1, 8]), b: zeros('INT64', [1]) })).not.toBe(key);
  expect(shapeKey({ a: zeros('FP16', [1, 7]), b: zeros('INT64', [1]) })).not.toBe(key);
  expect(shapeKey({ a: tensor('INT64', [], 1) })).not.toBe(shapeKey({ a: tensor('INT64', [], 2) }));
  expect(shapeKey({ a: zeros('FP32', [1]) })).not.toBe(shapeKey({ a: zeros('FP32', []) }));
});

it('knows the rows that all inputs share', () => {
  expect(rowsOf({ a: zeros('FP32', [3, 1]), rate: zeros('INT64', []), b: zeros('FP32', [3]) })).toBe(3);
  expect(rowsOf({ rate: zeros('INT64', []) })).toBe(1);
  expect(rowsOf({ a: zeros('FP32', [0, 3]) })).toBe(0);
  expect(() => rowsOf({ a: zeros('FP32', [3]), b: zeros('FP32', [2]) })).toThrow(
    expect.objectContaining({ status: 400, message: expect.stringContaining('"b" has 2') }),
  );
});
