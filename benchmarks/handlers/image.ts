import { defineHandler } from '@onnxserve/handler-kit';
import { softmax, topK } from '@onnxserve/handler-kit/postprocess';
import { imagenet, imageTensor } from '@onnxserve/handler-kit/preprocess/image';
import sharp from 'sharp';

/** A JPEG in, the five best classes out. */
export default defineHandler({
  load(ctx) {
    sharp.concurrency(ctx.worker.threads);
    sharp.cache(false);
    return undefined;
  },
  async preprocess(request) {
    const resize = { mode: 'crop', width: 224, height: 224, shortestSide: 256 } as const;
    return { image: await imageTensor(request.body(), { ...imagenet, resize }) };
  },
  postprocess(outputs) {
    return { top5: topK(softmax(outputs['logits']), 5).map(({ index, score }) => ({ class: index, p: score })) };
  },
});
