import type { default as Sharp, Sharp as Pipeline } from 'sharp';
import { PredictionError } from '../errors.js';
import { optionalPeer } from '../optional-peer.js';
import type { Tensor } from '../tensor.js';
import { type ImageFormat, sniffImage } from './image-format.js';
import { type ImageHeader, jpegHeader, pngHeader } from './image-header.js';
import { decodePlainJpeg } from './image-jpeg.js';
import { type Geometry, layout, type Resize, type Rgb } from './image-layout.js';
import { emptyTensor, type Normalisation, pixelTensor, type RawImage } from './image-pixels.js';
import { axesOf, isSmall, resizeInto } from './image-resize.js';
import { pixelLimit } from './pixel-limit.js';

export type { ImageFormat } from './image-format.js';
export { type Geometry, type Kernel, type Resize, type Rgb } from './image-layout.js';
export { imagenet, type Normalisation, pixelTensor, type RawImage } from './image-pixels.js';

export interface DecodeOptions {
  /** Pixels that a picture may have by its header; default 178,956,970, or any number on a server with `limit_max_image_pixels=false`. */
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
/** Pictures of more pixels are decoded by sharp, piece by piece. */
const maxPlainPixels = 1 << 24;
const letterboxGrey: Rgb = [114, 114, 114];

type SharpFunction = typeof Sharp;
let loaded: Promise<SharpFunction> | undefined;

/**
 * Decodes a picture to 8-bit sRGB without alpha, upright: grey, palette, CMYK and 16-bit pictures included; of an animation
 * or a multi-page file the first. Needs the package `sharp`.
 * @throws {PredictionError} 400 empty, cut or corrupt; 415 a format that is not accepted; 413 more pixels than `maxPixels`,
 *   known from the header, before anything is decoded
 */
export async function decodeImage(bytes: Uint8Array, options: DecodeOptions = {}): Promise<RawImage> {
  const source = await open(bytes, options);
  return (await decodePlain(source, bytes)) ?? render(await pipelineOf(bytes, options));
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
  const source = await open(bytes, options);
  const { width, height } = source;
  const { resize } = options;
  if (resize === undefined) {
    const pixels = (await decodePlain(source, bytes)) ?? (await render(await pipelineOf(bytes, options)));
    const geometry = { originalWidth: width, originalHeight: height, scaleX: 1, scaleY: 1, left: 0, top: 0 };
    return { tensor: pixelTensor(pixels, options), geometry };
  }
  const quick = await resizePlain(source, bytes, options, resize);
  if (quick !== undefined) return quick;
  const decoded = await decodePlain(source, bytes);
  if (decoded !== undefined) {
    const { geometry, ...pixels } = await resizeImage(decoded, resize);
    return { tensor: pixelTensor(pixels, options), geometry };
  }
  const { pipeline, geometry } = resized(await pipelineOf(bytes, options), width, height, resize);
  return { tensor: pixelTensor(await render(pipeline), options), geometry };
}

/** A picture whose format and size are accepted; sizes are as shown, that is upright. */
interface Source {
  readonly width: number;
  readonly height: number;
  readonly plain: boolean;
  /** It is not stored as it is shown. */
  readonly turn: boolean;
}

async function open(bytes: Uint8Array, options: DecodeOptions): Promise<Source> {
  const format = checkFormat(bytes, options.formats ?? allFormats);
  const maxPixels = options.maxPixels ?? pixelLimit();
  const header =
    (format === 'jpeg' ? jpegHeader(bytes) : format === 'png' ? pngHeader(bytes) : undefined) ?? (await askSharp(bytes));
  const { width, height, orientation } = header;
  if (width * height > maxPixels) {
    const setting = options.maxPixels === undefined ? 'limit_max_image_pixels=false lifts it' : 'maxPixels of the handler';
    throw new PredictionError(`the picture has ${width} x ${height} pixels, the limit is ${maxPixels} (${setting})`, 413, {
      reason: 'input-too-large',
    });
  }
  // Only libjpeg tells what it merely warns about, and only sharp resizes without holding all pixels.
  const plain = header.plain && options.failOn !== 'warning' && width * height <= maxPlainPixels;
  const turn = (options.orient ?? true) && orientation !== 1;
  return turn && orientation >= 5 ? { width: height, height: width, plain, turn } : { width, height, plain, turn };
}

async function askSharp(bytes: Uint8Array): Promise<ImageHeader> {
  const sharp = await loadSharp();
  const { width, height, orientation } = await failing(() => sharp(bytes, { limitInputPixels: false }).metadata());
  return { width, height, orientation: orientation ?? 1, plain: false };
}

async function decodePlain({ width, height, plain, turn }: Source, bytes: Uint8Array): Promise<RawImage | undefined> {
  if (!plain) return undefined;
  const data = await decodePlainJpeg(bytes, turn, { left: 0, top: 0, width, height });
  return data && { width, height, channels: 3, data };
}

/** Decodes what the result shows of a plain picture and resizes it here, unless that would hold up the thread for long. */
async function resizePlain(
  { width, height, plain, turn }: Source,
  bytes: Uint8Array,
  options: ImageTensorOptions,
  resize: Resize,
): Promise<{ tensor: Tensor<'FP32'>; geometry: Geometry } | undefined> {
  if (!plain || (resize.kernel ?? 'linear') !== 'linear') return undefined;
  const plan = layout(width, height, resize);
  const { x, y } = axesOf(plan);
  if (!isSmall(x, y)) return undefined;
  const window = { left: x.from, top: y.from, width: x.length, height: y.length };
  const pixels = await decodePlainJpeg(bytes, turn, window);
  if (pixels === undefined) return undefined;
  const sink = emptyTensor(plan.width, plan.height, options);
  if (resize.mode === 'letterbox') {
    const area = plan.width * plan.height;
    for (const [channel, value] of (resize.background ?? letterboxGrey).entries()) {
      for (let at = 0; at < area; at++) sink.tensor.data[sink.base[channel]! + at * sink.stepX] = sink.tables[channel]![value]!;
    }
  }
  resizeInto(sink, pixels, x, y);
  return { tensor: sink.tensor, geometry: plan.geometry };
}

async function pipelineOf(bytes: Uint8Array, options: DecodeOptions): Promise<Pipeline> {
  const sharp = await loadSharp();
  // Shrinking while loading is quicker, but its pixels differ from those that models were trained on.
  const maxPixels = options.maxPixels ?? pixelLimit();
  const source = sharp(bytes, {
    limitInputPixels: Number.isFinite(maxPixels) && maxPixels,
    failOn: options.failOn ?? 'error',
  });
  const upright = (options.orient ?? true) ? source.autoOrient() : source;
  const [r, g, b] = options.background ?? [0, 0, 0];
  return upright.flatten({ background: { r, g, b } }).toColourspace('srgb');
}

function checkFormat(bytes: Uint8Array, formats: readonly ImageFormat[]): ImageFormat {
  if (bytes.byteLength === 0) throw new PredictionError('the picture is empty, it has no bytes', 400);
  const format = sniffImage(bytes);
  const accepted = `accepted are ${formats.join(', ')}`;
  if (format === undefined) throw new PredictionError(`the data is no picture of a known format; ${accepted}`, 400);
  if (!(formats as readonly string[]).includes(format)) {
    throw new PredictionError(`pictures of the format ${format} are not accepted; ${accepted}`, 415);
  }
  return format as ImageFormat;
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
  const [r, g, b] = resize.background ?? letterboxGrey;
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
