import { type Scores, toRows } from './scores.js';

export interface NmsOptions {
  /** Boxes that overlap a better one by more than this are dropped; intersection over union, default 0.5. */
  readonly iouThreshold?: number;
  /** Boxes with a lower score are dropped first; default none are. */
  readonly scoreThreshold?: number;
  readonly maxDetections?: number;
  /** Class of each box; boxes of different classes do not suppress each other. */
  readonly classes?: ArrayLike<number>;
}

/**
 * Non-maximum suppression.
 * @param boxes `[n, 4]` corners `x1, y1, x2, y2`
 * @param scores `[n]`
 * @returns indices of the boxes that stay, the best first
 */
export function nms(boxes: Scores | undefined, scores: Scores | undefined, options: NmsOptions = {}): number[] {
  const { iouThreshold = 0.5, scoreThreshold = -Infinity, maxDetections = Infinity, classes } = options;
  const corners = toRows(boxes).values;
  const { values } = toRows(scores);
  if (corners.length !== values.length * 4) {
    throw new RangeError(`nms needs four corners for each score, got ${corners.length} numbers for ${values.length} scores`);
  }
  const order = Array.from({ length: values.length }, (_, index) => index)
    .filter((index) => values[index]! >= scoreThreshold)
    .sort((a, b) => values[b]! - values[a]! || a - b);
  const kept: number[] = [];
  for (const index of order) {
    if (kept.length >= maxDetections) break;
    const clear = kept.every((other) => classes?.[other] !== classes?.[index] || iou(corners, other, index) <= iouThreshold);
    if (clear) kept.push(index);
  }
  return kept;
}

function iou(corners: ArrayLike<number>, a: number, b: number): number {
  const at = (box: number, corner: number): number => corners[box * 4 + corner]!;
  const width = Math.max(0, Math.min(at(a, 2), at(b, 2)) - Math.max(at(a, 0), at(b, 0)));
  const height = Math.max(0, Math.min(at(a, 3), at(b, 3)) - Math.max(at(a, 1), at(b, 1)));
  const shared = width * height;
  const area = (box: number): number => Math.max(0, at(box, 2) - at(box, 0)) * Math.max(0, at(box, 3) - at(box, 1));
  const union = area(a) + area(b) - shared;
  return union <= 0 ? 0 : shared / union;
}
