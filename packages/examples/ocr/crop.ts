import { type Box, distance } from './geometry.js';
import { laidDown, type Picture } from './picture.js';

/** Lines this much higher than wide are taken as turned by a right angle. */
const uprightRatio = 1.5;

/** Cuts a box out of a picture and straightens it; undefined when the box is thinner than a pixel. */
export function cropLine(picture: Picture, box: Box): Picture | undefined {
  const width = Math.trunc(Math.max(distance(box[0], box[1]), distance(box[2], box[3])));
  const height = Math.trunc(Math.max(distance(box[0], box[3]), distance(box[1], box[2])));
  if (width < 1 || height < 1) return undefined;
  const toSource = squareToBox(box);
  const data = new Uint8Array(width * height * 3);
  const pixel = cubicSampler(picture);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [sourceX, sourceY] = toSource(x / width, y / height);
      pixel(sourceX, sourceY, data, (y * width + x) * 3);
    }
  }
  const line = { width, height, data };
  return height >= uprightRatio * width ? laidDown(line) : line;
}

/** Projective map of the unit square to the box. */
function squareToBox([[x0, y0], [x1, y1], [x2, y2], [x3, y3]]: Box): (u: number, v: number) => [number, number] {
  const [dx1, dx2, sx] = [x1 - x2, x3 - x2, x0 - x1 + x2 - x3];
  const [dy1, dy2, sy] = [y1 - y2, y3 - y2, y0 - y1 + y2 - y3];
  const determinant = dx1 * dy2 - dx2 * dy1;
  const g = (sx * dy2 - dx2 * sy) / determinant;
  const h = (dx1 * sy - sx * dy1) / determinant;
  return (u, v) => {
    const w = g * u + h * v + 1;
    return [
      ((x1 - x0 + g * x1) * u + (x3 - x0 + h * x3) * v + x0) / w,
      ((y1 - y0 + g * y1) * u + (y3 - y0 + h * y3) * v + y0) / w,
    ];
  };
}

/** Bicubic sampling (a = -0.75); beyond its border the picture goes on with its border pixels. */
function cubicSampler({ width, height, data }: Picture): (x: number, y: number, target: Uint8Array, offset: number) => void {
  const across = new Float64Array(4);
  const down = new Float64Array(4);
  const columns = new Int32Array(4);
  return (x, y, target, offset) => {
    const left = Math.floor(x);
    const top = Math.floor(y);
    cubicWeights(x - left, across);
    cubicWeights(y - top, down);
    for (let tap = 0; tap < 4; tap++) columns[tap] = Math.min(width - 1, Math.max(0, left - 1 + tap)) * 3;
    let [red, green, blue] = [0, 0, 0];
    for (let row = 0; row < 4; row++) {
      const start = Math.min(height - 1, Math.max(0, top - 1 + row)) * width * 3;
      for (let tap = 0; tap < 4; tap++) {
        const at = start + columns[tap]!;
        const weight = across[tap]! * down[row]!;
        red += weight * data[at]!;
        green += weight * data[at + 1]!;
        blue += weight * data[at + 2]!;
      }
    }
    target[offset] = toByte(red);
    target[offset + 1] = toByte(green);
    target[offset + 2] = toByte(blue);
  };
}

function cubicWeights(t: number, weights: Float64Array): void {
  const a = -0.75;
  const outer = (s: number) => ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
  const inner = (s: number) => ((a + 2) * s - (a + 3)) * s * s + 1;
  weights[0] = outer(1 + t);
  weights[1] = inner(t);
  weights[2] = inner(1 - t);
  weights[3] = 1 - weights[0] - weights[1] - weights[2];
}

function toByte(value: number): number {
  return Math.min(255, Math.max(0, Math.round(value)));
}
