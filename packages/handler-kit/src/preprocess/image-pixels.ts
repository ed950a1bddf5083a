import { Tensor } from '../tensor.js';

/** 8-bit sRGB pixels, row by row, red green blue. */
export interface RawImage {
  readonly width: number;
  readonly height: number;
  readonly channels: 3;
  readonly data: Uint8Array;
}

/** Pixel values become `(value * scale - mean) / std`, channel by channel. */
export interface Normalisation {
  /** Default 1/255. */
  readonly scale?: number;
  /** In the order red, green, blue, whatever `channelOrder` says; default 0. */
  readonly mean?: readonly [number, number, number];
  /** In the order red, green, blue; default 1. */
  readonly std?: readonly [number, number, number];
  /** Default `RGB`. */
  readonly channelOrder?: 'RGB' | 'BGR';
  /** Default `NCHW`. */
  readonly layout?: 'NCHW' | 'NHWC';
}

/** Mean and standard deviation that most ImageNet models were trained with. */
export const imagenet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const;

/** Pixels as FP32 `[1, 3, height, width]`, or `[1, height, width, 3]`. */
export function pixelTensor(image: RawImage, options: Normalisation = {}): Tensor<'FP32'> {
  const { width, height, data } = image;
  const { scale = 1 / 255, mean = [0, 0, 0], std = [1, 1, 1] } = options;
  const order = options.channelOrder === 'BGR' ? [2, 1, 0] : [0, 1, 2];
  // Only 256 values can occur, so each is computed once.
  const tables = order.map((channel) =>
    Float32Array.from({ length: 256 }, (_, value) => (value * scale - mean[channel]!) / std[channel]!),
  );
  const size = width * height;
  const result = new Float32Array(size * 3);
  const planes = options.layout !== 'NHWC';
  const step = planes ? 1 : 3;
  for (let place = 0; place < 3; place++) {
    const table = tables[place]!;
    let to = planes ? place * size : place;
    for (let from = order[place]!; from < size * 3; from += 3) {
      result[to] = table[data[from]!]!;
      to += step;
    }
  }
  return new Tensor('FP32', planes ? [1, 3, height, width] : [1, height, width, 3], result);
}
