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
  const { tensor, tables, base, stepX } = emptyTensor(width, height, options);
  const size = width * height * 3;
  for (const [channel, table] of tables.entries()) {
    let to = base[channel]!;
    for (let from = channel; from < size; from += 3) {
      tensor.data[to] = table[data[from]!]!;
      to += stepX;
    }
  }
  return tensor;
}

/** A tensor to be filled, with the places and the values of its pixels. */
export interface PixelSink {
  readonly tensor: Tensor<'FP32'>;
  /** What each of the 256 values becomes, by channel: red, green, blue. */
  readonly tables: readonly [Float32Array, Float32Array, Float32Array];
  /** Channel `c` at (x, y) goes to `base[c] + x * stepX + y * stepY`. */
  readonly base: readonly [number, number, number];
  readonly stepX: number;
  readonly stepY: number;
}

export function emptyTensor(width: number, height: number, options: Normalisation): PixelSink {
  const planes = options.layout !== 'NHWC';
  const [stepX, stepChannel] = planes ? [1, width * height] : [3, 1];
  const places = options.channelOrder === 'BGR' ? [2, 1, 0] : [0, 1, 2];
  return {
    tensor: new Tensor('FP32', planes ? [1, 3, height, width] : [1, height, width, 3], new Float32Array(width * height * 3)),
    tables: [table(options, 0), table(options, 1), table(options, 2)],
    base: [places[0]! * stepChannel, places[1]! * stepChannel, places[2]! * stepChannel],
    stepX,
    stepY: stepX * width,
  };
}

/** Only 256 values can occur, so each is computed once. */
function table({ scale = 1 / 255, mean = [0, 0, 0], std = [1, 1, 1] }: Normalisation, channel: number): Float32Array {
  const result = new Float32Array(256);
  for (let value = 0; value < 256; value++) result[value] = (value * scale - mean[channel]!) / std[channel]!;
  return result;
}
