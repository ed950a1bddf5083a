import { crc32 } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { PredictionError } from '../errors.js';
import { decodeImage, imageInput, imageTensor, imagenet, type RawImage, resizeImage } from './image.js';
import { limitPixels } from './pixel-limit.js';

type Colour = readonly [number, number, number];
const red: Colour = [220, 30, 30];
const green: Colour = [30, 200, 40];
const blue: Colour = [30, 40, 210];
const white: Colour = [240, 240, 240];

/** A scene whose four corners differ: red, green over blue, white by default. */
function scene(
  width: number,
  height: number,
  [topLeft, topRight, bottomLeft, bottomRight]: readonly Colour[] = [red, green, blue, white],
): RawImage {
  const data = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      data.set(
        (y * 2 < height ? (x * 2 < width ? topLeft : topRight) : x * 2 < width ? bottomLeft : bottomRight)!,
        (y * width + x) * 3,
      );
    }
  }
  return { width, height, channels: 3, data };
}
const raw = ({ width, height, data }: RawImage) => sharp(data, { raw: { width, height, channels: 3 } });
const solid = (colour: Colour, width = 8, height = 8) =>
  sharp({ create: { width, height, channels: 3, background: { r: colour[0], g: colour[1], b: colour[2] } } });

/** The colour in the middle of each quarter. */
function corners({ width, height, data }: RawImage): number[][] {
  const at = (x: number, y: number): number[] => [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
  const [left, right, top, bottom] = [width >> 2, (3 * width) >> 2, height >> 2, (3 * height) >> 2];
  return [at(left, top), at(right, top), at(left, bottom), at(right, bottom)];
}
function near(actual: readonly number[][], wanted: readonly Colour[], tolerance: number): void {
  for (const [index, colour] of wanted.entries()) {
    for (const [channel, value] of colour.entries()) {
      expect(Math.abs(actual[index]![channel]! - value), `corner ${index}, ${String(actual[index])}`).toBeLessThanOrEqual(
        tolerance,
      );
    }
  }
}
async function failure(bytes: Uint8Array, options = {}): Promise<PredictionError> {
  const error: unknown = await decodeImage(bytes, options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(PredictionError);
  return error as PredictionError;
}

describe('orientation', () => {
  /** Where the stored pixel (x, y) of a picture with EXIF orientation n is shown; w and h are those of the stored picture. */
  const shown: Array<(x: number, y: number, w: number, h: number) => [number, number]> = [
    (x, y) => [x, y],
    (x, y, w) => [w - 1 - x, y],
    (x, y, w, h) => [w - 1 - x, h - 1 - y],
    (x, y, _w, h) => [x, h - 1 - y],
    (x, y) => [y, x],
    (x, y, _w, h) => [h - 1 - y, x],
    (x, y, w, h) => [h - 1 - y, w - 1 - x],
    (x, y, w) => [y, w - 1 - x],
  ];

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('shows orientation %i upright', async (orientation) => {
    const upright = scene(48, 32);
    const [width, height] = orientation >= 5 ? [32, 48] : [48, 32];
    const data = Buffer.alloc(width * height * 3);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const [sx, sy] = shown[orientation - 1]!(x, y, width, height);
        data.set(upright.data.subarray((sy * 48 + sx) * 3, (sy * 48 + sx) * 3 + 3), (y * width + x) * 3);
      }
    }
    const jpeg = await raw({ width, height, channels: 3, data })
      .jpeg({ quality: 100, chromaSubsampling: '4:4:4' })
      .withMetadata({ orientation })
      .toBuffer();
    const image = await decodeImage(jpeg);
    expect(image).toMatchObject({ width: 48, height: 32, channels: 3 });
    near(corners(image), [red, green, blue, white], 6);
    expect(await decodeImage(jpeg, { orient: false })).toMatchObject({ width, height });
    const { geometry } = await imageInput(jpeg, { resize: { mode: 'crop', width: 16, height: 16 } });
    expect(geometry).toMatchObject({ originalWidth: 48, originalHeight: 32, left: -4, top: 0 });
  });
});

describe('colours', () => {
  const picture = () => raw(scene(32, 32));
  it.each<[string, () => Promise<Buffer>, number]>([
    ['PNG', () => picture().png().toBuffer(), 0],
    ['WebP', () => picture().webp({ lossless: true }).toBuffer(), 0],
    ['TIFF', () => picture().tiff({ compression: 'lzw' }).toBuffer(), 0],
    ['GIF', () => picture().gif().toBuffer(), 8],
    ['AVIF', () => picture().avif({ quality: 95, chromaSubsampling: '4:4:4' }).toBuffer(), 10],
    ['palette PNG', () => picture().png({ palette: true }).toBuffer(), 4],
    ['16-bit PNG', () => picture().toColourspace('rgb16').png().toBuffer(), 1],
    ['PNG with alpha', () => picture().ensureAlpha(1).png().toBuffer(), 0],
  ])('decodes %s to three channels of sRGB', async (_, make, tolerance) => {
    const image = await decodeImage(await make());
    expect(image).toMatchObject({ width: 32, height: 32, channels: 3 });
    expect(image.data).toHaveLength(32 * 32 * 3);
    near(corners(image), [red, green, blue, white], tolerance);
  });

  it.each<[string, () => Promise<Buffer>]>([
    ['grey JPEG', () => solid([100, 100, 100]).greyscale().jpeg().toBuffer()],
    ['grey PNG', () => solid([100, 100, 100]).greyscale().png().toBuffer()],
    ['16-bit grey PNG', () => solid([100, 100, 100]).toColourspace('grey16').png().toBuffer()],
    ['grey PNG with alpha', () => solid([100, 100, 100]).greyscale().ensureAlpha(1).png().toBuffer()],
  ])('decodes %s to equal channels', async (_, make) => {
    const { data } = await decodeImage(await make());
    expect(data).toHaveLength(8 * 8 * 3);
    expect([...new Set(data)].every((value) => Math.abs(value - 100) <= 1)).toBe(true);
  });

  it('decodes CMYK, neither inverted nor with four channels', async () => {
    // Within what inks can print.
    const muted: Colour[] = [
      [200, 100, 90],
      [120, 160, 100],
      [90, 110, 170],
      [230, 230, 230],
    ];
    const cmyk = raw(scene(32, 32, muted)).toColourspace('cmyk');
    for (const file of [
      await cmyk.clone().jpeg({ quality: 100 }).toBuffer(),
      await cmyk.clone().keepIccProfile().tiff().toBuffer(),
    ]) {
      expect(await sharp(file).metadata()).toMatchObject({ space: 'cmyk', channels: 4 });
      const image = await decodeImage(file);
      expect(image.data).toHaveLength(32 * 32 * 3);
      near(corners(image), muted, 12);
    }
  });

  it('decodes one bit per pixel', async () => {
    const image = await decodeImage(await raw(scene(32, 32)).threshold(200).png({ palette: true, colours: 2 }).toBuffer());
    expect(new Set(image.data)).toEqual(new Set([0, 255]));
  });

  it('shows black through transparent pixels, or what was asked for', async () => {
    const clear = await sharp({ create: { width: 4, height: 4, channels: 4, background: { r: 255, g: 0, b: 0, alpha: 0 } } })
      .png()
      .toBuffer();
    expect([...(await decodeImage(clear)).data.subarray(0, 3)]).toEqual([0, 0, 0]);
    expect([...(await decodeImage(clear, { background: [255, 255, 255] })).data.subarray(0, 3)]).toEqual([255, 255, 255]);
    const half = await sharp({ create: { width: 4, height: 4, channels: 4, background: { r: 200, g: 0, b: 0, alpha: 0.5 } } })
      .png()
      .toBuffer();
    expect((await decodeImage(half)).data[0]).toBeGreaterThan(95);
    expect((await decodeImage(half)).data[0]).toBeLessThan(105);
  });
});

describe('bad pictures', () => {
  let jpeg: Buffer;
  let png: Buffer;
  beforeAll(async () => {
    const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (at * 7919) % 251));
    const picture = raw({ width: 64, height: 64, channels: 3, data: noise });
    jpeg = await picture.clone().jpeg().toBuffer();
    png = await picture.clone().png().toBuffer();
  });

  it.each([0.3, 0.6, 0.9])('refuses a JPEG and a PNG cut at %d', async (share) => {
    for (const whole of [jpeg, png]) expect((await failure(whole.subarray(0, whole.length * share))).status).toBe(400);
  });

  it('refuses a PNG with a wrong checksum', async () => {
    const broken = Buffer.from(png);
    broken[Math.floor(broken.length / 2)]! ^= 0xff;
    expect(await failure(broken)).toMatchObject({ status: 400, message: expect.stringContaining('cannot be decoded') });
  });

  it.each([
    ['nothing', '', 400, 'empty'],
    ['text', 'this is no picture', 400, 'no picture'],
    ['an SVG', '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', 415, 'svg'],
    ['a PDF', '%PDF-1.7', 415, 'pdf'],
    ['a HEIC', '\0\0\0\x18ftypheic\0\0\0\0mif1heic', 415, 'heic'],
    ['half a header', '\x89PNG\r\n\x1a\n\0\0', 400, 'cannot be decoded'],
  ])('refuses %s', async (_, text, status, why) => {
    const error = await failure(Buffer.from(text, 'latin1'));
    expect(error).toMatchObject({ status });
    expect(error.message).toContain(why);
  });

  it('takes only the formats it is told to', async () => {
    expect(await failure(jpeg, { formats: ['png'] })).toMatchObject({
      status: 415,
      message: expect.stringContaining('accepted are png'),
    });
  });

  it('refuses too many pixels by the header alone', async () => {
    const header = Buffer.alloc(13);
    header.writeUInt32BE(30_000, 0);
    header.writeUInt32BE(30_000, 4);
    header.set([8, 2, 0, 0, 0], 8);
    const chunk = (type: string, data: Buffer): Buffer => {
      const content = Buffer.concat([Buffer.from(type, 'latin1'), data]);
      const frame = Buffer.alloc(content.length + 8);
      frame.writeUInt32BE(data.length, 0);
      content.copy(frame, 4);
      frame.writeUInt32BE(crc32(content), content.length + 4);
      return frame;
    };
    const bomb = Buffer.concat([
      png.subarray(0, 8),
      chunk('IHDR', header),
      chunk('IDAT', Buffer.alloc(10)),
      chunk('IEND', Buffer.alloc(0)),
    ]);
    const errors = await Promise.all(Array.from({ length: 16 }, () => failure(bomb)));
    for (const error of errors) {
      expect(error).toMatchObject({ status: 413, reason: 'input-too-large' });
      expect(error.message).toMatch(/30000 x 30000.*178956970.*limit_max_image_pixels/);
    }
    const own = await failure(png, { maxPixels: 64 * 64 - 1 });
    expect(own).toMatchObject({ status: 413, message: expect.stringContaining('(maxPixels of the handler') });
    limitPixels(false);
    try {
      expect(await failure(bomb)).toMatchObject({ status: 400, message: expect.stringContaining('cannot be decoded') });
    } finally {
      limitPixels(true);
    }
    expect(await decodeImage(png, { maxPixels: 64 * 64 })).toMatchObject({ width: 64 });
  });
});

describe('resizing', () => {
  const wide = scene(100, 51);

  it('stretches to the size', async () => {
    const image = await resizeImage(wide, { mode: 'stretch', width: 20, height: 40 });
    expect(image).toMatchObject({ width: 20, height: 40, geometry: { scaleX: 0.2, left: 0, top: 0 } });
    near(corners(image), [red, green, blue, white], 0);
  });

  it('cuts the centre out', async () => {
    const image = await resizeImage(wide, { mode: 'crop', width: 23, height: 23, shortestSide: 26 });
    // 100 * 26 / 51 is cut to 50; (50 - 23) / 2 and (26 - 23) / 2 are rounded, halves to even.
    expect(image).toMatchObject({ width: 23, height: 23, geometry: { scaleX: 0.5, scaleY: 26 / 51, left: -14, top: -2 } });
    near(corners(image), [red, green, blue, white], 0);
    await expect(resizeImage(wide, { mode: 'crop', width: 23, height: 23, shortestSide: 10 })).rejects.toThrow('shortestSide');
  });

  it('fits into a letterbox and says where', async () => {
    const image = await resizeImage(wide, { mode: 'letterbox', width: 50, height: 51, background: [1, 2, 3] });
    expect(image).toMatchObject({ width: 50, height: 51, geometry: { scaleX: 0.5, scaleY: 26 / 51, left: 0, top: 12 } });
    expect([...image.data.subarray(0, 3)]).toEqual([1, 2, 3]);
    expect([...image.data.subarray(-3)]).toEqual([1, 2, 3]);
    expect([...image.data.subarray(12 * 50 * 3, 12 * 50 * 3 + 3)]).toEqual([...red]);
  });

  it('does in one call what it does in steps', async () => {
    const png = await raw(wide).png().toBuffer();
    for (const mode of ['stretch', 'crop', 'letterbox'] as const) {
      const resize = { mode, width: 16, height: 16 };
      const steps = await resizeImage(await decodeImage(png), resize);
      const { tensor, geometry } = await imageInput(png, { resize, scale: 1 });
      expect(geometry).toEqual(steps.geometry);
      expect(tensor.shape).toEqual([1, 3, 16, 16]);
      expect([...tensor.data.subarray(0, 256)]).toEqual([...steps.data].filter((_, at) => at % 3 === 0));
    }
  });

  it('averages when it shrinks, as training pipelines do', async () => {
    const stripes = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (Math.floor(at / 3) % 2 === 0 ? 0 : 200)));
    const image = await resizeImage(
      { width: 64, height: 64, channels: 3, data: stripes },
      { mode: 'stretch', width: 16, height: 16 },
    );
    expect(Math.max(...image.data) - Math.min(...image.data)).toBeLessThan(30);
  });
});

describe('tensors', () => {
  const planes = (data: Float32Array): number[] =>
    [data[0]!, data[64]!, data[128]!].map((value) => Math.round(value * 1e6) / 1e6);
  it.each<[string, object, Colour, number[]]>([
    ['RGB', {}, [255, 0, 51], [1, 0, 0.2]],
    ['BGR', { channelOrder: 'BGR' }, [255, 0, 51], [0.2, 0, 1]],
    ['0 to 255', { scale: 1 }, [255, 0, 51], [255, 0, 51]],
    ['mean and std', { mean: [0.5, 0.25, 0], std: [0.5, 1, 0.1] }, [255, 0, 51], [1, -0.25, 2]],
    ['mean and std in BGR', { mean: [0.5, 0.25, 0], std: [0.5, 1, 0.1], channelOrder: 'BGR' }, [255, 0, 51], [2, -0.25, 1]],
    ['ImageNet', imagenet, [0, 255, 0], [-2.117904, 2.428571, -1.804444]],
  ])('normalises %s', async (_, options, colour, wanted) => {
    const tensor = await imageTensor(await solid(colour).png().toBuffer(), options);
    expect(tensor).toMatchObject({ datatype: 'FP32', shape: [1, 3, 8, 8] });
    expect(planes(tensor.data)).toEqual(wanted);
  });

  it('lays channels out last on demand', async () => {
    const tensor = await imageTensor(await solid([255, 0, 51]).png().toBuffer(), { layout: 'NHWC' });
    expect(tensor.shape).toEqual([1, 8, 8, 3]);
    expect([...tensor.data.subarray(0, 6)].map((value) => Math.round(value * 10) / 10)).toEqual([1, 0, 0.2, 1, 0, 0.2]);
  });
});
