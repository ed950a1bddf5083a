import { describe, expect, it, vi } from 'vitest';
import { shapeOfNested, tensor, toArray, toNumbers } from './convert.js';
import type { Datatype } from './datatype.js';
import { PredictionError } from './errors.js';
import { Tensor, zeros } from './tensor.js';

const fails = (datatype: Datatype, shape: number[], values: unknown): { status: number; message: string } => {
  try {
    tensor(datatype, shape, values as never);
  } catch (error) {
    expect(error).toBeInstanceOf(PredictionError);
    return error as PredictionError;
  }
  throw new Error('it did not fail');
};

describe('tensor', () => {
  it('takes flat and nested values', () => {
    expect(tensor('INT32', [2, 2], [1, 2, 3, 4]).data).toEqual(Int32Array.of(1, 2, 3, 4));
    expect(
      tensor(
        'INT32',
        [2, 2],
        [
          [1, 2],
          [3, 4],
        ],
      ).data,
    ).toEqual(Int32Array.of(1, 2, 3, 4));
    expect(tensor('FP32', [1, 2], [Float32Array.of(1, 2)]).data).toEqual(Float32Array.of(1, 2));
    expect(tensor('FP32', [], 1.5).data).toEqual(Float32Array.of(1.5));
  });

  it('keeps a typed array of the datatype without a copy', () => {
    const data = Float32Array.of(1, 2);
    expect(tensor('FP32', [2], data).data).toBe(data);
  });

  it('takes integers exactly', () => {
    expect(tensor('INT64', [4], [1, -2, 2n ** 62n, Number.MAX_SAFE_INTEGER]).data).toEqual(
      BigInt64Array.of(1n, -2n, 2n ** 62n, 9007199254740991n),
    );
    expect(tensor('UINT64', [1], [2n ** 64n - 1n]).data).toEqual(BigUint64Array.of(2n ** 64n - 1n));
    expect(tensor('BOOL', [4], [true, false, 1, 0]).data).toEqual(Uint8Array.of(1, 0, 1, 0));
    expect(tensor('FP16', [3], [65504, 1, NaN]).data).toEqual(Uint16Array.of(0x7bff, 0x3c00, 0x7e00));
    expect(tensor('BF16', [1], [1]).data).toEqual(Uint16Array.of(0x3f80));
    expect(tensor('FP64', [1], [0.1]).data).toEqual(Float64Array.of(0.1));
  });

  it.each<[Datatype, unknown, string]>([
    ['INT64', '1', 'the text "1"'],
    ['INT64', 1.5, '1.5'],
    ['INT64', null, 'null'],
    ['INT64', true, 'true'],
    ['INT64', 2 ** 53, '9007199254740992'],
    ['INT64', 2n ** 63n, '-9223372036854775808 to 9223372036854775807'],
    ['UINT64', -1, '0 to 18446744073709551615'],
    ['UINT64', 2n ** 64n, '0 to'],
    ['UINT8', 256, '0 to 255'],
    ['UINT8', -1, '0 to 255'],
    ['INT8', -129, '-128 to 127'],
    ['INT16', 32768, '-32768 to 32767'],
    ['INT32', 2 ** 31, '-2147483648 to 2147483647'],
    ['UINT16', 65536, '0 to 65535'],
    ['UINT32', 1e300, '0 to 4294967295'],
    ['FP32', '1', 'a number'],
    ['FP32', null, 'a number'],
    ['FP32', true, 'a number'],
    ['FP32', 1e39, 'at most'],
    ['FP16', 65520, '65504'],
    ['BF16', 1e300, 'at most'],
    ['FP64', {}, 'a number'],
    ['BOOL', 2, 'true, false, 0 or 1'],
    ['BOOL', 'true', 'true, false, 0 or 1'],
    ['BYTES', 1, 'text or bytes'],
    ['BYTES', '\ud83d', 'lone surrogates'],
  ])('refuses for %s the element %o', (datatype, value, why) => {
    const error = fails(datatype, [2], [datatype === 'BYTES' ? 'a' : 0, value]);
    expect(error.status).toBe(400);
    expect(error.message).toContain('element 1 is');
    expect(error.message).toContain(why);
  });

  it('names the place in nested values', () => {
    expect(
      fails(
        'UINT8',
        [2, 2],
        [
          [1, 2],
          [3, 999],
        ],
      ).message,
    ).toContain('element 3 ([1][1])');
    expect(fails('FP32', [2, 2], [[1, 2], [3]]).message).toContain('values[1] should have 2 values');
    expect(fails('FP32', [2, 2], [[1, 2], 3]).message).toContain('values[1]');
    expect(fails('FP32', [1, 1], [[[1]]]).message).toContain('an array');
    expect(fails('FP32', [3], [1, 2]).message).toContain('needs 3 elements, got 2');
    expect(fails('FP32', [1], 'x').message).toContain('needs an array');
    expect(fails('FP32', [-1], [1]).message).toContain('non-negative');
    expect(fails('FP32', [2147483647, 2147483647], [1]).status).toBe(400);
  });
});

describe('toArray', () => {
  it('nests by shape, exactly', () => {
    expect(toArray(tensor('INT64', [2, 1, 2], [1, 2, 3, 4n]))).toEqual([[[1n, 2n]], [[3n, 4n]]]);
    expect(toArray(tensor('BOOL', [2], [1, 0]))).toEqual([true, false]);
    expect(toArray(tensor('FP16', [2], [0.5, -1]))).toEqual([0.5, -1]);
    expect(toArray(tensor('BYTES', [2, 2], ['', ' ', 'a\u0000b', '😀']))).toEqual([
      ['', ' '],
      ['a\u0000b', '😀'],
    ]);
  });

  it('keeps empty tensors and scalars apart', () => {
    expect(toArray(zeros('FP32', [0, 3]))).toEqual([]);
    expect(toArray(zeros('FP32', [2, 0]))).toEqual([[], []]);
    expect(toArray(zeros('FP32', []))).toBe(0);
    expect(toArray(zeros('FP32', [1]))).toEqual([0]);
  });
});

it('knows the tensors of another copy of the package', async () => {
  vi.resetModules();
  const copy = await import('./tensor.js');
  expect(copy.Tensor).not.toBe(Tensor);
  expect(new copy.Tensor('FP32', [1], Float32Array.of(1))).toBeInstanceOf(Tensor);
  expect({ datatype: 'FP32', shape: [1], data: [1] }).not.toBeInstanceOf(Tensor);
});

it('reads the shape of nested arrays', () => {
  expect(shapeOfNested([[[1], [2]]])).toEqual([1, 2, 1]);
  expect(shapeOfNested([])).toEqual([0]);
  expect(shapeOfNested(1)).toEqual([]);
});

it('gives any numeric tensor as plain numbers', () => {
  expect([...toNumbers(tensor('INT64', [2], [1, 2]))]).toEqual([1, 2]);
  expect([...toNumbers(tensor('BF16', [1], [2]))]).toEqual([2]);
  expect(() => toNumbers(tensor('BYTES', [1], ['a']))).toThrow('BYTES');
});
