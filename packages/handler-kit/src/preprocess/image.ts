import type { default as Sharp, Sharp as Pipeline } from 'sharp';
import { PredictionError } from '../errors.js';
import { optionalPeer } from '../optional-peer.js';
import type { Tensor } from '../tensor.js';
import { type ImageFormat, sniffImage } from './image-format.js';
import { type Geometry, layout, type Resize, type Rgb } from './image-layout.js';
import { type Normalisation, pixelTensor, type RawImage } from './image-pixels.js';

export type { ImageFormat } from './image-format.js';
export { type Geometry, type Kernel, type Resize, type Rgb } from './image-layout.js';
export { imagenet, type Normalisation, pixelTensor, type RawImage } from './image-pixels.js';

export interface DecodeOptions {
  /** Pixels that a picture may have by its header; default 178,956,970. */
  readonly maxPixels?: number;
  /** Formats that are decoded; default all of jpeg, png, webp, gif, tiff, avif. SVG and PDF never are. */
  readonly formats?: readonly ImageFormat[];
  /** Apply the orientation of the EXIF data; default true. */
  readonly orient?: boolean;
  /** What shows through transparent pixels; default black. */
  readonly background?: Rgb;
  /**
   * The least damage that is refused: `truncated` a file that ends early, `error` (default) also damaged data such as a wrong
   * checksum, `warning` also what decoders only warn about.
   */
  readonly failOn?: 'truncated' | 'error' | 'warning';
}

export interface ImageTensorOptions extends DecodeOptions, Normalisation {
  /** Without it the picture keeps its size. */
  readonly resize?: Resize;
}

const allFormats: readonly ImageFormat[] = ['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'];
const defaultMaxPixels = 178_956_970;

type SharpFunction = typeof Sharp;
let loaded: Promise<SharpFunction> | undefined;

/**
 * Decodes a picture to 8-bit sRGB without alpha, upright: grey, palette, CMYK and 16-bit pictures included; of an animation
 * or a multi-page file the first. Needs the package `sharp`.
 * @throws {PredictionError} 400 empty, cut or corrupt; 415 a format that is not accepted; 413 more pixels than `maxPixels`,
 *   known from the header, before anything is decoded
 */
export async function decodeImage(bytes: Uint8Array, options: DecodeOptions = {}): Promise<RawImage> {
  const { pipeline } = await open(bytes, options);
  return render(pipeline);
}

/** Resizes a decoded picture. */
export async function resizeImage(image: RawImage, resize: Resize): Promise<RawImage & { readonly geometry: Geometry }> {
  const sharp = await loadSharp();
  const raw = sharp(image.data, { raw: { width: image.width, height: image.height, channels: 3 }, limitInputPixels: false });
  const { pipeline, geometry } = resized(raw, image.width, image.height, resize);
  return { ...(await render(pipeline)), geometry };
}

/**
 * Picture to model input in one call: decoded as `decodeImage` does, resized, normalised.
 * @returns FP32 `[1, 3, height, width]`, or `[1, height, width, 3]` with `layout: 'NHWC'`
 */
export async function imageTensor(bytes: Uint8Array, options: ImageTensorOptions = {}): Promise<Tensor<'FP32'>> {
  return (await imageInput(bytes, options)).tensor;
}

/** As `imageTensor`, with what is needed to map a model's boxes back to the picture. */
export async function imageInput(
  bytes: Uint8Array,
  options: ImageTensorOptions = {},
): Promise<{ tensor: Tensor<'FP32'>; geometry: Geometry }> {
  const { pipeline, width, height } = await open(bytes, options);
  const fitted = options.resize
    ? resized(pipeline, width, height, options.resize)
    : { pipeline, geometry: { originalWidth: width, originalHeight: height, scaleX: 1, scaleY: 1, left: 0, top: 0 } };
  return { tensor: pixelTensor(await render(fitted.pipeline), options), geometry: fitted.geometry };
}

async function open(bytes: Uint8Array, options: DecodeOptions): Promise<{ pipeline: Pipeline; width: number; height: number }> {
  checkFormat(bytes, options.formats ?? allFormats);
  const sharp = await loadSharp();
  const maxPixels = options.maxPixels ?? defaultMaxPixels;
  const orient = options.orient ?? true;
  let { width, height, orientation } = await failing(() => sharp(bytes, { limitInputPixels: false }).metadata());
  if (width * height > maxPixels) {
    throw new PredictionError(
      `the picture has ${width} x ${height} pixels, the limit is ${maxPixels} (limit_max_image_pixels, or maxPixels in a handler)`,
      413,
      { reason: 'input-too-large' },
    );
  }
  if (orient && orientation !== undefined && orientation >= 5) [width, height] = [height, width];
  // Shrinking while loading is quicker, but its pixels differ from those that models were trained on.
  const source = sharp(bytes, { limitInputPixels: maxPixels, failOn: options.failOn ?? 'error' });
  const upright = orient ? source.autoOrient() : source;
  const [r, g, b] = options.background ?? [0, 0, 0];
  return { pipeline: upright.flatten({ background: { r, g, b } }).toColourspace('srgb'), width, height };
}

function checkFormat(bytes: Uint8Array, formats: readonly ImageFormat[]): void {
  if (bytes.byteLength === 0) throw new PredictionError('the picture is empty, it has no bytes', 400);
  const format = sniffImage(bytes);
  const accepted = `accepted are ${formats.join(', ')}`;
  if (format === undefined) throw new PredictionError(`the data is no picture of a known format; ${accepted}`, 400);
  if (!(formats as readonly string[]).includes(format)) {
    throw new PredictionError(`pictures of the format ${format} are not accepted; ${accepted}`, 415);
  }
}

function resized(source: Pipeline, width: number, height: number, resize: Resize): { pipeline: Pipeline; geometry: Geometry } {
  const plan = layout(width, height, resize);
  const { left, top } = plan.geometry;
  const scaled = source.resize(plan.scaled.width, plan.scaled.height, {
    fit: 'fill',
    kernel: resize.kernel ?? 'linear',
    fastShrinkOnLoad: false,
  });
  const { geometry } = plan;
  if (resize.mode === 'stretch') return { pipeline: scaled, geometry };
  if (resize.mode === 'crop') {
    return { pipeline: scaled.extract({ left: -left, top: -top, width: plan.width, height: plan.height }), geometry };
  }
  const [r, g, b] = resize.background ?? [114, 114, 114];
  const right = plan.width - plan.scaled.width - left;
  const bottom = plan.height - plan.scaled.height - top;
  return { pipeline: scaled.extend({ left, top, right, bottom, background: { r, g, b } }), geometry };
}

async function render(pipeline: Pipeline): Promise<RawImage> {
  const { data, info } = await failing(() => pipeline.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true }));
  if ((info.channels as number) !== 3) throw new Error(`sharp gave ${info.channels} channels where 3 were wanted`);
  return { width: info.width, height: info.height, channels: 3, data };
}

async function failing<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    throw new PredictionError(`the picture cannot be decoded: ${(error as Error).message}`, 400, { cause: error });
  }
}

async function loadSharp(): Promise<SharpFunction> {
  loaded ??= optionalPeer<{ default: SharpFunction }>('sharp', () => import('sharp')).then((module) => module.default);
  return loaded;
}
