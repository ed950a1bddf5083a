import { defineHandler, PredictionError, Tensor } from '@onnxserve/handler-kit';
import { softmax, topK } from '@onnxserve/handler-kit/postprocess';
import sharp from 'sharp';
import { type GreyPicture, inkCells } from './ink.js';

/** Longer sides than this are scaled down first: more pixels cannot change 64 cells. */
const longestSide = 256;

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
    return best.map(({ label, score }) => ({ label, probability: score }));
  },
});

/** Any picture that sharp reads, as grey on white. */
async function decode(bytes: Uint8Array): Promise<GreyPicture> {
  if (bytes.length === 0) throw new PredictionError('the request has no body; send the bytes of a picture', 400);
  try {
    const { data, info } = await sharp(bytes, { limitInputPixels: 50_000_000 })
      .autoOrient()
      .flatten({ background: 'white' })
      .greyscale()
      .resize(longestSide, longestSide, { fit: 'inside', withoutEnlargement: true })
      .raw()
      .toBuffer({ resolveWithObject: true });
    return { width: info.width, height: info.height, data };
  } catch (error) {
    throw new PredictionError(`the body is not a picture that can be read: ${(error as Error).message}`, 400, { cause: error });
  }
}
