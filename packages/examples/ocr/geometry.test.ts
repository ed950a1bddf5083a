import { describe, expect, it } from 'vitest';
import { cropLine } from './crop.js';
import { textBoxes } from './detect.js';
import { type Box, grow, type Point, smallestRectangle } from './geometry.js';
import { laidDown, type Picture, turned } from './picture.js';

const settings = { limitSideLength: 960, threshold: 0.3, boxThreshold: 0.6, unclipRatio: 1.5 };

function expectBox(box: Box | undefined, wanted: readonly Point[], tolerance = 1e-6): void {
  expect(box).toHaveLength(4);
  for (const [index, [x, y]] of wanted.entries()) {
    expect(Math.hypot(box![index]![0] - x, box![index]![1] - y)).toBeLessThan(tolerance);
  }
}

/** A picture of `width` x `height` whose pixels are what `value` says. */
function picture(width: number, height: number, value: (x: number, y: number) => readonly number[]): Picture {
  const data = Array.from({ length: width * height }, (_, index) => value(index % width, Math.floor(index / width)));
  return { width, height, data: Uint8Array.from(data.flat()) };
}

describe('smallestRectangle', () => {
  it('lies along points that stand askew', () => {
    const rectangle = smallestRectangle([
      [0, 30],
      [40, 0],
      [70, 40],
      [30, 70],
      [35, 35],
    ]);
    expectBox(rectangle?.corners, [
      [0, 30],
      [40, 0],
      [70, 40],
      [30, 70],
    ]);
    expect(rectangle?.shortSide).toBeCloseTo(50);
  });

  it('is undefined for points on one line', () => {
    const line: Point[] = [
      [0, 0],
      [5, 5],
      [9, 9],
    ];
    expect(smallestRectangle(line)).toBeUndefined();
  });

  it('grows by area over perimeter on every side', () => {
    const rectangle = smallestRectangle([
      [10, 10],
      [70, 10],
      [70, 30],
      [10, 30],
    ])!;
    const grown = grow(rectangle, 1.6);
    expectBox(grown.corners, [
      [-2, -2],
      [82, -2],
      [82, 42],
      [-2, 42],
    ]);
    expect(grown.shortSide).toBeCloseTo(44);
  });
});

describe('textBoxes', () => {
  const map = (rows: readonly string[]) => {
    const values = rows.flatMap((row) => Array.from(row, (digit) => Number(digit) / 10));
    return textBoxes(Float32Array.from(values), rows[0]!.length, rows.length, { ...settings, unclipRatio: 0.5 });
  };

  it('finds one box for each region, also when its parts touch only at corners', () => {
    const boxes = map([
      '000000000000000000000',
      '099999000000000000000',
      '099999000000000000000',
      '099999000000000000000',
      '099999000000000000000',
      '000000999990000000000',
      '000000999990000000000',
      '000000999990000000000',
      '000000999990000099999',
      '000000000000000099999',
      '000000000000000099999',
      '000000000000000099999',
      '000000000000000099999',
    ]);
    expect(boxes).toHaveLength(2);
  });

  it('leaves out specks and regions that are faint as a whole', () => {
    const boxes = map([
      '000000000000000',
      '099000004444444',
      '099000004444444',
      '000000004444444',
      '000000004444444',
      '000000004444444',
    ]);
    expect(boxes).toEqual([]);
  });
});

describe('cropLine', () => {
  const page = picture(60, 40, (x, y) => [x * 4, y * 6, (x + y) % 256]);

  it('cuts an upright box out pixel by pixel', () => {
    const box: Box = [
      [10, 5],
      [40, 5],
      [40, 15],
      [10, 15],
    ];
    expect(cropLine(page, box)).toEqual(picture(30, 10, (x, y) => [(x + 10) * 4, (y + 5) * 6, x + y + 15]));
  });

  it('lays a high box down', () => {
    const high: Box = [
      [10, 5],
      [20, 5],
      [20, 35],
      [10, 35],
    ];
    const upright = picture(10, 30, (x, y) => [(x + 10) * 4, (y + 5) * 6, x + y + 15]);
    expect(cropLine(page, high)).toEqual(laidDown(upright));
  });

  it('gives nothing for a box without an area', () => {
    const point: Point = [3, 3];
    expect(cropLine(page, [point, point, point, point])).toBeUndefined();
  });

  it('turns pictures around', () => {
    const small = picture(3, 2, (x, y) => [x, y, 7]);
    expect(turned(small)).toEqual(picture(3, 2, (x, y) => [2 - x, 1 - y, 7]));
    expect(turned(turned(small))).toEqual(small);
    expect(laidDown(small)).toEqual(picture(2, 3, (x, y) => [2 - y, x, 7]));
  });
});
