import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { jpegHeader, pngHeader } from './image-header.js';
import { decodePlainJpeg } from './image-jpeg.js';
import { layout, type Resize } from './image-layout.js';
import { emptyTensor } from './image-pixels.js';
import { axesOf, isSmall, resizeInto } from './image-resize.js';
import { decodeImage, imageInput, imageTensor } from './image.js';

/** Smooth colours with some grain, about as hard to decode as a photograph. */
function scene(width: number, height: number): Buffer {
  const data = Buffer.alloc(width * height * 3);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const grain = ((x * 7919 + y * 104_729) % 23) - 11;
      data[at++] = 128 + 90 * Math.sin(x / 17) + grain;
      data[at++] = 128 + 90 * Math.cos(y / 13) + grain;
      data[at++] = 128 + 90 * Math.sin((x + y) / 29) + grain;
    }
  }
  return data;
}
const raw = (data: Buffer, width: number, height: number) => sharp(data, { raw: { width, height, channels: 3 } });
const picture = (width = 200, height = 150) => raw(scene(width, height), width, height);

/** With EXIF data, of either byte order. */
function turned(jpeg: Buffer, orientation: number): Buffer {
  const little = orientation % 2 === 0;
  const tiff = little
    ? [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0]
    : [0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0];
  const segment = [0xff, 0xe1, 0, tiff.length + 8, ...Buffer.from('Exif\0\0'), ...tiff];
  return Buffer.concat([jpeg.subarray(0, 2), Buffer.from(segment), jpeg.subarray(2)]);
}

function difference(actual: ArrayLike<number>, wanted: ArrayLike<number>): { mean: number; most: number } {
  expect(actual).toHaveLength(wanted.length);
  let [sum, most] = [0, 0];
  for (let at = 0; at < wanted.length; at++) {
    const gap = Math.abs(actual[at]! - wanted[at]!);
    sum += gap;
    most = Math.max(most, gap);
  }
  return { mean: sum / wanted.length, most };
}

/** The same by its definition, in floating point: every result from all samples. */
function byDefinition(data: Buffer, width: number, height: number, resize: Resize): number[] {
  const plan = layout(width, height, resize);
  const weights = (size: number, scaled: number, at: number): Array<[number, number]> => {
    const scale = size / scaled;
    const reach = Math.max(1, scale);
    const all = Array.from({ length: size }, (_, sample): [number, number] => [
      sample,
      Math.max(0, 1 - Math.abs(sample + 0.5 - (at + 0.5) * scale) / reach),
    ]).filter(([, weight]) => weight > 0);
    const sum = all.reduce((total, [, weight]) => total + weight, 0);
    return all.map(([sample, weight]) => [sample, weight / sum]);
  };
  const result: number[] = [];
  for (let y = 0; y < plan.height; y++) {
    for (let x = 0; x < plan.width; x++) {
      const [sx, sy] = [x - plan.geometry.left, y - plan.geometry.top];
      const outside = sx < 0 || sy < 0 || sx >= plan.scaled.width || sy >= plan.scaled.height;
      for (let channel = 0; channel < 3; channel++) {
        let sum = outside ? 114 : 0;
        if (!outside) {
          for (const [fromY, weightY] of weights(height, plan.scaled.height, sy)) {
            for (const [fromX, weightX] of weights(width, plan.scaled.width, sx)) {
              sum += data[(fromY * width + fromX) * 3 + channel]! * weightY * weightX;
            }
          }
        }
        result.push(sum);
      }
    }
  }
  return result;
}

describe('decoding a plain JPEG', () => {
  it.each<[string, object]>([
    ['4:2:0', {}],
    ['4:4:4', { chromaSubsampling: '4:4:4' }],
    ['progressive', { progressive: true }],
    ['of low quality', { quality: 40 }],
  ])('gives the pixels of libjpeg, 1 level apart on average and 8 at most: %s', async (_, options) => {
    for (const [width, height] of [
      [200, 150],
      [201, 151],
      [17, 9],
    ] as const) {
      const jpeg = await picture(width, height).jpeg(options).toBuffer();
      expect(jpegHeader(jpeg)).toEqual({ width, height, orientation: 1, plain: true });
      const pixels = await decodePlainJpeg(jpeg, true, { left: 0, top: 0, width, height });
      const { mean, most } = difference(pixels!, await sharp(jpeg).raw().toBuffer());
      expect(mean).toBeLessThan(1);
      expect(most).toBeLessThanOrEqual(8);
    }
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('cuts the window out of orientation %i as it is shown', async (orientation) => {
    const jpeg = turned(await picture(64, 48).jpeg({ quality: 95 }).toBuffer(), orientation);
    const { orientation: found, plain } = jpegHeader(jpeg)!;
    expect({ found, plain }).toEqual({ found: orientation, plain: true });
    const window = { left: 5, top: 3, width: 30, height: 40 };
    const upright = await sharp(jpeg).autoOrient().toFormat('png').toBuffer();
    const wanted = await sharp(upright).extract(window).raw().toBuffer();
    expect(difference((await decodePlainJpeg(jpeg, true, window))!, wanted).mean).toBeLessThan(1);
    const resize = { mode: 'crop', width: 20, height: 20, shortestSide: 30 } as const;
    const { tensor, geometry } = await imageInput(jpeg, { resize, scale: 1 });
    const other = await imageInput(upright, { resize, scale: 1 });
    expect(geometry).toEqual(other.geometry);
    expect(difference(tensor.data, other.tensor.data).mean).toBeLessThan(1.5);
  });

  it('gives undefined for what it cannot read', async () => {
    const window = { left: 0, top: 0, width: 8, height: 8 };
    expect(await decodePlainJpeg(Buffer.from([0xff, 0xd8, 0xff, 0xd9]), true, window)).toBeUndefined();
  });
});

describe('what is left to sharp', () => {
  let jpeg: Buffer;
  beforeAll(async () => {
    jpeg = await picture().jpeg().toBuffer();
  });

  it.each<[string, () => Promise<Buffer>]>([
    ['grey', () => picture().toColourspace('b-w').jpeg().toBuffer()],
    ['another profile', () => picture().withIccProfile('p3').jpeg().toBuffer()],
    ['cut', async () => jpeg.subarray(0, jpeg.length - 200)],
    ['something behind the end', async () => Buffer.concat([jpeg, Buffer.from('more')])],
  ])('is not plain: %s', async (_, make) => {
    expect(jpegHeader(await make())).toMatchObject({ width: 200, height: 150, plain: false });
  });

  it('is no header it vouches for: CMYK, a broken table, another kind of coding, half a segment', async () => {
    expect(jpegHeader(await picture().toColourspace('cmyk').jpeg().toBuffer())).toBeUndefined();
    const table = jpeg.indexOf(Buffer.from([0xff, 0xc4]));
    const broken = Buffer.from(jpeg);
    broken[table + 5] = 3;
    expect(jpegHeader(broken)).toBeUndefined();
    await expect(decodeImage(broken)).rejects.toMatchObject({ status: 400 });
    const arithmetic = Buffer.from(jpeg);
    arithmetic[jpeg.indexOf(Buffer.from([0xff, 0xc0])) + 1] = 0xc9;
    expect(jpegHeader(arithmetic)).toBeUndefined();
    for (let length = 2; length < 160; length++) expect(jpegHeader(jpeg.subarray(0, length))).toBeUndefined();
  });

  it('is decoded all the same, in every way to ask for it', async () => {
    const grey = await picture().toColourspace('b-w').jpeg().toBuffer();
    const { data } = await imageTensor(grey, { resize: { mode: 'stretch', width: 9, height: 7 }, scale: 1, layout: 'NHWC' });
    expect(data.length).toBe(9 * 7 * 3);
    for (let at = 0; at < data.length; at += 3) expect([data[at + 1], data[at + 2]]).toEqual([data[at], data[at]]);
    const cut = jpeg.subarray(0, jpeg.length * 0.7);
    for (const resize of [undefined, { mode: 'crop', width: 32, height: 32 } as const]) {
      await expect(imageTensor(cut, { ...(resize && { resize }) })).rejects.toMatchObject({ status: 400 });
      await expect(imageTensor(jpeg, { ...(resize && { resize }), maxPixels: 200 * 150 - 1 })).rejects.toMatchObject({
        status: 413,
        reason: 'input-too-large',
      });
    }
  });

  it('refuses on request what decoders only warn about', async () => {
    // A hole in the data, with the end in place.
    const hole = Buffer.concat([jpeg.subarray(0, jpeg.length * 0.7), jpeg.subarray(-2)]);
    expect(await decodeImage(hole)).toMatchObject({ width: 200, height: 150 });
    await expect(decodeImage(hole, { failOn: 'warning' })).rejects.toMatchObject({ status: 400 });
  });
});

describe('the header of a PNG', () => {
  it('gives the size, unless there may be EXIF data', async () => {
    expect(pngHeader(await picture().png().toBuffer())).toEqual({ width: 200, height: 150, orientation: 1, plain: false });
    const turned = await picture().withMetadata({ orientation: 6 }).png().toBuffer();
    expect(pngHeader(turned)).toBeUndefined();
    expect(await decodeImage(turned)).toMatchObject({ width: 150, height: 200 });
  });
});

describe('resizing in one pass', () => {
  it.each<[string, Resize]>([
    ['a crop', { mode: 'crop', width: 28, height: 28, shortestSide: 32 }],
    ['a wide crop', { mode: 'crop', width: 40, height: 20, shortestSide: 44 }],
    ['a strong shrink', { mode: 'stretch', width: 5, height: 4 }],
    ['to one pixel', { mode: 'stretch', width: 1, height: 1 }],
    ['an enlargement', { mode: 'stretch', width: 83, height: 90 }],
    ['one axis each way', { mode: 'stretch', width: 90, height: 11 }],
    ['the same size', { mode: 'stretch', width: 61, height: 47 }],
    ['a letterbox', { mode: 'letterbox', width: 40, height: 40 }],
  ])('is the antialiasing triangle within 2 levels: %s', async (_, resize) => {
    const [width, height] = [61, 47];
    const jpeg = await picture(width, height).jpeg({ quality: 95, chromaSubsampling: '4:4:4' }).toBuffer();
    const plan = layout(width, height, resize);
    const { x, y } = axesOf(plan);
    expect(isSmall(x, y)).toBe(true);
    const pixels = (await decodePlainJpeg(jpeg, true, { left: 0, top: 0, width, height }))!;
    const wanted = byDefinition(Buffer.from(pixels), width, height, resize);
    const nhwc = await imageInput(jpeg, { resize, scale: 1, layout: 'NHWC' });
    const { mean, most } = difference(nhwc.tensor.data, wanted);
    expect(mean).toBeLessThan(0.6);
    expect(most).toBeLessThanOrEqual(2);
    const area = plan.width * plan.height;
    const bgr = await imageInput(jpeg, { resize, scale: 1, channelOrder: 'BGR' });
    expect([...bgr.tensor.data]).toEqual(
      Array.from({ length: area * 3 }, (_value, at) => nhwc.tensor.data[(at % area) * 3 + 2 - Math.floor(at / area)]),
    );
  });

  it('agrees with sharp when it shrinks', async () => {
    const jpeg = await picture(300, 225).jpeg().toBuffer();
    const png = await sharp(jpeg).png().toBuffer();
    const resize = { mode: 'crop', width: 128, height: 128, shortestSide: 150 } as const;
    const [own, sharps] = await Promise.all([jpeg, png].map(async (file) => imageTensor(file, { resize, scale: 1 })));
    const { mean, most } = difference(own!.data, sharps!.data);
    expect(mean).toBeLessThan(1);
    expect(most).toBeLessThanOrEqual(6);
  });

  it('keeps pictures in flight apart', async () => {
    const files = await Promise.all(
      [40, 64, 100].map((size) =>
        picture(size, size + 7)
          .jpeg()
          .toBuffer(),
      ),
    );
    const resize = { mode: 'crop', width: 24, height: 24 } as const;
    const alone: number[][] = [];
    for (const file of files) alone.push([...(await imageTensor(file, { resize })).data]);
    const together = await Promise.all([...files, ...files].map((file) => imageTensor(file, { resize })));
    expect(together.map(({ data }) => [...data])).toEqual([...alone, ...alone]);
  });

  it('leaves large pictures to sharp', async () => {
    const { x, y } = axesOf(layout(1500, 1000, { mode: 'stretch', width: 64, height: 64 }));
    expect(isSmall(x, y)).toBe(false);
    const jpeg = await picture(1500, 1000).jpeg().toBuffer();
    const resize = { mode: 'stretch', width: 64, height: 64 } as const;
    const { tensor } = await imageInput(jpeg, { resize, scale: 1, layout: 'NHWC' });
    const wanted = await sharp(jpeg).resize(64, 64, { fit: 'fill', kernel: 'linear', fastShrinkOnLoad: false }).raw().toBuffer();
    expect(difference(tensor.data, wanted).mean).toBeLessThan(1);
  });

  it('writes nothing outside of its place', () => {
    const plan = layout(10, 20, { mode: 'letterbox', width: 20, height: 20 });
    const sink = emptyTensor(20, 20, { scale: 1, layout: 'NHWC' });
    sink.tensor.data.fill(-1);
    const { x, y } = axesOf(plan);
    resizeInto(sink, new Uint8Array(10 * 20 * 3).fill(7), x, y);
    for (let at = 0; at < 1200; at++) {
      const column = Math.floor(at / 3) % 20;
      expect(sink.tensor.data[at]).toBe(column >= 5 && column < 15 ? 7 : -1);
    }
  });
});
