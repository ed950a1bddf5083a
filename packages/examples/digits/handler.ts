import { defineHandler, PredictionError, Tensor } from '@onnxserve/handler-kit';
import { softmax, topK } from '@onnxserve/handler-kit/postprocess';
import { decodeImage, resizeImage } from '@onnxserve/handler-kit/preprocess/image';
import { type GreyPicture, inkCells } from './ink.js';

/** Longer sides than this are scaled down first: more pixels cannot change 64 cells. */
const longestSide = 256;
const maxPixels = 50_000_000;

export default defineHandler({
  async load(ctx) {
    const labels = await ctx.model.json<Record<string, string>>('index_to_name.json');
    return { labels, count: Number(ctx.model.config['topK'] ?? 3) };
  },

  async preprocess(request, ctx) {
    const found = inkCells(await decode(request.body()));
    if (found === undefined) {
      throw new PredictionError('the picture shows nothing that stands out from its background; send one digit', 400);
    }
    ctx.response.header('x-digit-ink', found.ink);
    return { image: new Tensor('FP32', [1, 1, 8, 8], found.cells) };
  },

  postprocess(outputs, ctx) {
    const best = topK(softmax(outputs['logits']), ctx.state.count, ctx.state.labels);
    return best.map(({ label, score }) => ({ label, probability: Number(score.toFixed(6)) }));
  },
});

/** Any picture, as grey on white. */
async function decode(bytes: Uint8Array): Promise<GreyPicture> {
  let image = await decodeImage(bytes, { maxPixels, background: [255, 255, 255] });
  const scale = Math.max(image.width, image.height) / longestSide;
  if (scale > 1) {
    const side = (pixels: number) => Math.max(1, Math.round(pixels / scale));
    image = await resizeImage(image, { mode: 'stretch', width: side(image.width), height: side(image.height) });
  }
  const { width, height, data } = image;
  const luma = (at: number) => Math.round(0.299 * data[at]! + 0.587 * data[at + 1]! + 0.114 * data[at + 2]!);
  return { width, height, data: Uint8Array.from({ length: width * height }, (_, pixel) => luma(pixel * 3)) };
}
