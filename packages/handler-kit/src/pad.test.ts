import { describe, expect, it } from 'vitest';
import { tensor, toArray } from './convert.js';
import { cutTo, paddedShapes, padTo } from './pad.js';

describe('padding', () => {
  const matrix = tensor('INT64', [2, 2], [1, 2, 3, 4]);

  it('fills after the data, or before it', () => {
    expect(toArray(padTo(matrix, [2, 4], { value: 9n }))).toEqual([
      [1n, 2n, 9n, 9n],
      [3n, 4n, 9n, 9n],
    ]);
    expect(toArray(padTo(matrix, [2, 3], { value: 0, side: 'left' }))).toEqual([
      [0n, 1n, 2n],
      [0n, 3n, 4n],
    ]);
  });

  it('fills several axes at once', () => {
    const picture = tensor('FP32', [1, 1, 2, 2], [1, 2, 3, 4]);
    expect(toArray(padTo(picture, [1, 1, 3, 3], { value: 0.5 }))).toEqual([
      [
        [
          [1, 2, 0.5],
          [3, 4, 0.5],
          [0.5, 0.5, 0.5],
        ],
      ],
    ]);
  });

  it('takes the value in the datatype of the tensor', () => {
    expect(toArray(padTo(tensor('FP16', [1, 1], [1]), [1, 2], { value: 1.5 }))).toEqual([[1, 1.5]]);
    expect(toArray(padTo(tensor('BOOL', [1, 1], [false]), [1, 2], { value: 1 }))).toEqual([[false, true]]);
  });

  it('copies nothing when nothing is missing, and takes tensors without elements', () => {
    expect(padTo(matrix, [2, 2], { value: 0 })).toBe(matrix);
    expect(cutTo(matrix, [2, 2])).toBe(matrix);
    expect(toArray(padTo(tensor('FP32', [1, 0], []), [1, 2], { value: 0 }))).toEqual([[0, 0]]);
  });

  it('is undone by cutting', () => {
    for (const side of ['left', 'right'] as const) {
      const padded = padTo(matrix, [2, 5], { value: 7, side });
      expect(toArray(cutTo(padded, [2, 2], side))).toEqual(toArray(matrix));
    }
    const texts = tensor('BYTES', [1, 3], ['a', 'b', 'c']);
    expect(cutTo(texts, [1, 2]).data).toEqual(['a', 'b']);
  });

  it('finds the largest of each axis', () => {
    const items = [{ a: tensor('FP32', [1, 2, 5], Array(10).fill(0)) }, { a: tensor('FP32', [3, 4, 1], Array(12).fill(0)) }];
    expect(paddedShapes(items, { a: { value: 0 } })).toEqual({ a: [0, 4, 5] });
  });
});
