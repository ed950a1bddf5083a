import { describe, expect, it } from 'vitest';
import {
  bfloat16ToFloat32,
  bfloat16ToNumber,
  float16ToFloat32,
  float16ToNumber,
  numberToBfloat16,
  numberToFloat16,
  toBfloat16,
  toFloat16,
} from './float16.js';

describe('FP16', () => {
  it.each([
    [0, 0x0000],
    [-0, 0x8000],
    [1, 0x3c00],
    [-2, 0xc000],
    [65504, 0x7bff],
    [65519.999, 0x7bff],
    [65520, 0x7c00],
    [1e300, 0x7c00],
    [-Infinity, 0xfc00],
    [NaN, 0x7e00],
    [2 ** -14, 0x0400],
    [2 ** -14 - 2 ** -24, 0x03ff],
    [2 ** -24, 0x0001],
    [2 ** -25, 0x0000],
    [2 ** -25 * 1.000001, 0x0001],
    [3 * 2 ** -25, 0x0002],
    [5e-324, 0x0000],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    // Rounding to 32 bits first would make this a tie.
    [1 + 2 ** -11 + 2 ** -40, 0x3c01],
    [2047.5, 0x67ff + 1],
  ])('rounds %d to %i', (value, bits) => {
    expect(numberToFloat16(value)).toBe(bits);
  });

  it('gives every bit pattern back', () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, index) => index);
    const values = float16ToFloat32(bits);
    const back = toFloat16(values);
    for (const [index, value] of values.entries()) {
      if (Number.isNaN(value)) expect(back[index]).toBe(0x7e00);
      else if (back[index] !== index || value !== float16ToNumber(index)) throw new Error(`${index} became ${back[index]}`);
    }
  });
});

describe('BF16', () => {
  it.each([
    [1, 0x3f80],
    [-0, 0x8000],
    [3.3895313892515355e38, 0x7f7f],
    [3.4e38, 0x7f80],
    [1e300, 0x7f80],
    [NaN, 0x7fc0],
    [Infinity, 0x7f80],
    [2 ** -126, 0x0080],
    [2 ** -133, 0x0001],
    [2 ** -134, 0x0000],
    [1 + 2 ** -8, 0x3f80],
    [1 + 3 * 2 ** -8, 0x3f82],
    [1 + 2 ** -8 + 2 ** -40, 0x3f81],
  ])('rounds %d to %i', (value, bits) => {
    expect(numberToBfloat16(value)).toBe(bits);
  });

  it('gives every bit pattern back', () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, index) => index);
    const values = bfloat16ToFloat32(bits);
    const back = toBfloat16(values);
    for (const [index, value] of values.entries()) {
      if (Number.isNaN(value)) expect(back[index]).toBe(0x7fc0);
      else if (back[index] !== index || value !== bfloat16ToNumber(index)) throw new Error(`${index} became ${back[index]}`);
    }
  });
});
