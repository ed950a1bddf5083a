import { decodeImage, resizeImage } from '@onnxserve/handler-kit/preprocess/image';

/** A colour picture, three bytes (red, green, blue) a pixel, row by row. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

const maxPixels = 64_000_000;

/**
 * Decodes a picture upright, on white where it is transparent, and scales it down to sides of at most `longestSide`.
 * @returns the picture and the factor from its pixels to those of the original
 * @throws {PredictionError} 400 when the bytes are no picture, 413 when it has too many pixels
 */
export async function decodePicture(bytes: Uint8Array, longestSide: number): Promise<{ picture: Picture; scale: number }> {
  const image = await decodeImage(bytes, { maxPixels, background: [255, 255, 255] });
  const scale = Math.max(image.width, image.height) / longestSide;
  if (scale <= 1) return { picture: image, scale: 1 };
  const side = (pixels: number) => Math.max(1, Math.round(pixels / scale));
  return { picture: await resizeImage(image, { mode: 'stretch', width: side(image.width), height: side(image.height) }), scale };
}

/** How byte values become the network's: (value / 255 - mean) / deviation for blue, green, red. */
export interface Normalisation {
  readonly mean: readonly [number, number, number];
  readonly deviation: readonly [number, number, number];
}

/**
 * Scales the picture to `width` x `height` (bilinear, pixel centres aligned) and writes its normalised blue, green and red
 * planes one after the other into `target`. The rows of the target may be longer than `width`: the rest is left as it is.
 */
export function writePlanes(
  { data, width: sourceWidth, height: sourceHeight }: Picture,
  { width, height }: { readonly width: number; readonly height: number },
  { mean, deviation }: Normalisation,
  target: Float32Array,
  rowLength = width,
): void {
  const columns = steps(sourceWidth, width);
  const rows = steps(sourceHeight, height);
  for (let channel = 0; channel < 3; channel++) {
    const factor = 1 / (255 * deviation[channel]!);
    const offset = mean[channel]! / deviation[channel]!;
    const source = 2 - channel;
    for (let y = 0; y < height; y++) {
      const upper = rows.first[y]! * sourceWidth;
      const lower = rows.second[y]! * sourceWidth;
      const down = rows.weight[y]!;
      const out = (channel * height + y) * rowLength;
      for (let x = 0; x < width; x++) {
        const left = columns.first[x]!;
        const right = columns.second[x]!;
        const weight = columns.weight[x]!;
        const a = data[(upper + left) * 3 + source]!;
        const b = data[(upper + right) * 3 + source]!;
        const c = data[(lower + left) * 3 + source]!;
        const d = data[(lower + right) * 3 + source]!;
        const above = a + (b - a) * weight;
        const value = above + (c + (d - c) * weight - above) * down;
        target[out + x] = value * factor - offset;
      }
    }
  }
}

/** For each target position the two source positions that it lies between and the weight of the second. */
function steps(from: number, to: number) {
  const first = new Int32Array(to);
  const second = new Int32Array(to);
  const weight = new Float32Array(to);
  for (let index = 0; index < to; index++) {
    const position = Math.min(from - 1, Math.max(0, ((index + 0.5) * from) / to - 0.5));
    first[index] = Math.floor(position);
    second[index] = Math.min(from - 1, first[index]! + 1);
    weight[index] = position - first[index]!;
  }
  return { first, second, weight };
}

/** The picture turned by 180 degrees. */
export function turned({ width, height, data }: Picture): Picture {
  const result = new Uint8Array(data.length);
  for (let from = 0, to = data.length - 3; from < data.length; from += 3, to -= 3) {
    for (let channel = 0; channel < 3; channel++) result[to + channel] = data[from + channel]!;
  }
  return { width, height, data: result };
}

/** The picture turned by 90 degrees against the clock. */
export function laidDown({ width, height, data }: Picture): Picture {
  const result = new Uint8Array(data.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const to = ((width - 1 - x) * height + y) * 3;
      for (let channel = 0; channel < 3; channel++) result[to + channel] = data[(y * width + x) * 3 + channel]!;
    }
  }
  return { width: height, height: width, data: result };
}
