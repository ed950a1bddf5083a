import { type SessionHandle, Tensor } from '@onnxserve/handler-kit';
import { type Box, cross, grow, type Point, smallestRectangle } from './geometry.js';
import { type Picture, writePlanes } from './picture.js';

export interface DetectionSettings {
  /** Longest side that the detection network sees, in pixels. */
  readonly limitSideLength: number;
  /** Probability from which on a pixel counts as text. */
  readonly threshold: number;
  /** Mean probability from which on a box counts. */
  readonly boxThreshold: number;
  /** How far boxes are grown: area times this over perimeter. */
  readonly unclipRatio: number;
}

const normalisation = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;
const maximumBoxes = 1000;

/** Boxes of the lines of text in a picture, in its pixels, in reading order. */
export async function detectLines(session: SessionHandle, picture: Picture, settings: DetectionSettings): Promise<Box[]> {
  const ratio = Math.min(1, settings.limitSideLength / Math.max(picture.width, picture.height));
  const width = multipleOf32(picture.width * ratio);
  const height = multipleOf32(picture.height * ratio);
  const planes = new Float32Array(3 * width * height);
  writePlanes(picture, { width, height }, normalisation, planes);
  const outputs = await session.run({ [session.inputs[0]!.name]: new Tensor('FP32', [1, 3, height, width], planes) });
  const map = outputs[session.outputs[0]!.name]!.data as Float32Array;
  const fit = (value: number, from: number, to: number) => Math.min(to, Math.max(0, Math.round((value / from) * to)));
  const boxes = textBoxes(map, width, height, settings).map((box) => {
    return box.map(([x, y]) => [fit(x, width, picture.width), fit(y, height, picture.height)] as const) as unknown as Box;
  });
  return inReadingOrder(boxes);
}

function multipleOf32(side: number): number {
  return Math.max(32, Math.round(Math.trunc(side) / 32) * 32);
}

/** Boxes around the connected regions of a probability map, in the map's pixels. */
export function textBoxes(map: Float32Array, width: number, height: number, settings: DetectionSettings): Box[] {
  const boxes: Box[] = [];
  for (const outline of regions(map, width, height, settings.threshold)) {
    const tight = smallestRectangle(outline);
    if (tight === undefined || tight.shortSide < 3) continue;
    if (meanInside(map, width, height, tight.corners) < settings.boxThreshold) continue;
    const grown = grow(tight, settings.unclipRatio);
    if (grown.shortSide >= 5) boxes.push(grown.corners);
    if (boxes.length === maximumBoxes) break;
  }
  return boxes;
}

/** For each 8-connected region above the threshold the outermost pixels of each of its rows: enough for its hull. */
function* regions(map: Float32Array, width: number, height: number, threshold: number): Generator<Point[]> {
  const seen = new Uint8Array(map.length);
  const stack: number[] = [];
  for (let start = 0; start < map.length; start++) {
    if (seen[start] === 1 || map[start]! <= threshold) continue;
    const rows = new Map<number, { left: number; right: number }>();
    seen[start] = 1;
    stack.push(start);
    while (stack.length > 0) {
      const index = stack.pop()!;
      const y = Math.trunc(index / width);
      const x = index - y * width;
      const row = rows.get(y);
      if (row === undefined) rows.set(y, { left: x, right: x });
      else if (x < row.left) row.left = x;
      else if (x > row.right) row.right = x;
      for (let ny = Math.max(0, y - 1); ny <= Math.min(height - 1, y + 1); ny++) {
        for (let nx = Math.max(0, x - 1); nx <= Math.min(width - 1, x + 1); nx++) {
          const next = ny * width + nx;
          if (seen[next] === 1 || map[next]! <= threshold) continue;
          seen[next] = 1;
          stack.push(next);
        }
      }
    }
    yield [...rows].flatMap(([y, { left, right }]): Point[] => [
      [left, y],
      [right, y],
    ]);
  }
}

/** Mean of the map inside a convex box whose corners go clockwise. */
function meanInside(map: Float32Array, width: number, height: number, box: Box): number {
  const corners = box.map(([x, y]): Point => [Math.trunc(x), Math.trunc(y)]);
  const limits = (axis: 0 | 1, size: number) => {
    const values = corners.map((corner) => corner[axis]);
    return [Math.max(0, Math.min(...values)), Math.min(size - 1, Math.max(...values))] as const;
  };
  const [left, right] = limits(0, width);
  const [top, bottom] = limits(1, height);
  let sum = 0;
  let count = 0;
  for (let y = top; y <= bottom; y++) {
    for (let x = left; x <= right; x++) {
      if (!corners.every((corner, index) => cross(corner, corners[(index + 1) % 4]!, [x, y]) >= 0)) continue;
      sum += map[y * width + x]!;
      count++;
    }
  }
  return count === 0 ? 0 : sum / count;
}

/** From top to bottom; boxes that begin within 10 pixels of the same height go from left to right. */
function inReadingOrder(boxes: readonly Box[]): Box[] {
  const sorted = [...boxes].sort((a, b) => a[0][1] - b[0][1] || a[0][0] - b[0][0]);
  for (let index = 1; index < sorted.length; index++) {
    for (let at = index; at > 0; at--) {
      const [before, after] = [sorted[at - 1]!, sorted[at]!];
      if (Math.abs(after[0][1] - before[0][1]) >= 10 || after[0][0] >= before[0][0]) break;
      sorted[at - 1] = after;
      sorted[at] = before;
    }
  }
  return sorted;
}
