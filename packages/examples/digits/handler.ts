import { defineHandler, PredictionError, Tensor } from '@onnxserve/handler-kit';
import sharp from 'sharp';
import { type GreyPicture, inkCells } from './ink.js';

/** Longer sides than this are scaled down first: more pixels cannot change 64 cells. */
const longestSide = 256;

export default defineHandler({
  async load(ctx) {
    const names = await ctx.model.json<Record<string, string>>('index_to_name.json');
    const labels = Object.keys(names).map((_, index) => names[index] ?? String(index));
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
    return best(outputs['logits']!.data as Float32Array, ctx.state.labels).slice(0, ctx.state.count);
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

/** Labels with the softmax of their logits, most probable first. */
function best(logits: Float32Array, labels: readonly string[]): Array<{ label: string; probability: number }> {
  const peak = Math.max(...logits);
  const weights = Array.from(logits, (logit) => Math.exp(logit - peak));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights
    .map((weight, index) => ({ label: labels[index] ?? String(index), probability: weight / sum }))
    .sort((a, b) => b.probability - a.probability);
}
