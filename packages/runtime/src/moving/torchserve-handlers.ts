/** What becomes of a handler that comes with TorchServe. */
export interface TorchServeHandler {
  /** What it does, for people. */
  readonly does: string;
  /** The bundled handler that takes its place. */
  readonly bundled?: string;
  readonly differs: readonly string[];
}

export const torchserveHandlers: Readonly<Record<string, TorchServeHandler>> = {
  image_classifier: {
    does: 'picture in, the five best classes out',
    bundled: 'image_classifier',
    differs: ['topK in model-config.yaml stands for a subclass with another topk', 'explanations need a handler of your own'],
  },
  image_segmenter: { does: 'picture in, class and probability of each pixel out', differs: [] },
  object_detector: { does: 'picture in, boxes with labels and scores out', differs: [] },
  text_classifier: {
    does: 'text in, the probability of each class out',
    differs: [
      'source_vocab.pt has to become JSON: python -c \'import json, torch; json.dump(torch.load("source_vocab.pt").get_stoi(), open("source_vocab.json", "w"))\' (needs torchtext)',
    ],
  },
  base_handler: {
    does: 'tensors in, tensors out',
    bundled: 'tensor',
    differs: ['requests name and shape their tensors: {"inputs": [...]}'],
  },
  densenet_handler: { does: 'picture in, the best classes out', bundled: 'image_classifier', differs: [] },
  dali_image_classifier: {
    does: 'picture in, the best classes out',
    bundled: 'image_classifier',
    differs: ['pictures are decoded on the CPU'],
  },
  vllm_handler: {
    does: 'language model served by vLLM',
    differs: ['language models of that size need an engine of their own; this is no task for onnxserve'],
  },
  trt_llm_handler: {
    does: 'language model served by TensorRT-LLM',
    differs: ['language models of that size need an engine of their own; this is no task for onnxserve'],
  },
};

const imageSegmenter = `// In the place of TorchServe's image_segmenter: [class, probability] of each pixel.
import { defineHandler } from '@onnxserve/handler-kit';
import { imageTensor, imagenet } from '@onnxserve/handler-kit/preprocess/image';

export default defineHandler({
  async preprocess(request, ctx) {
    const image = await imageTensor(request.body(), {
      resize: { mode: 'crop', width: 224, height: 224, shortestSide: 256 },
      scale: 1 / 255,
      ...imagenet,
    });
    return { [ctx.session?.inputs[0]?.name ?? 'input']: image };
  },

  postprocess(outputs, ctx) {
    const scores = outputs[ctx.session?.outputs[0]?.name ?? 'output'];
    if (scores?.shape.length !== 4) throw new Error('the model should return [batch, classes, height, width]');
    const [, classes = 0, height = 0, width = 0] = scores.shape;
    const values = scores.data as Float32Array;
    const pixels = height * width;
    return Array.from({ length: height }, (_row, y) =>
      Array.from({ length: width }, (_pixel, x) => {
        const of = (index: number) => values[index * pixels + y * width + x]!;
        let best = 0;
        for (let index = 1; index < classes; index++) if (of(index) > of(best)) best = index;
        let sum = 0;
        for (let index = 0; index < classes; index++) sum += Math.exp(of(index) - of(best));
        return [best, 1 / sum];
      }),
    );
  },
});
`;

const objectDetector = `// In the place of TorchServe's object_detector: [{label: [x1, y1, x2, y2], score}].
import { defineHandler, type NamedTensors } from '@onnxserve/handler-kit';
import { imageTensor } from '@onnxserve/handler-kit/preprocess/image';

const threshold = 0.5;

export default defineHandler({
  async load(ctx) {
    const labels = await ctx.model.json<Record<string, string>>('index_to_name.json').catch(() => undefined);
    return { labels };
  },

  async preprocess(request, ctx): Promise<NamedTensors> {
    const image = await imageTensor(request.body(), { scale: 1 / 255 });
    // Detectors of torchvision take one picture without a batch dimension.
    return { [ctx.session?.inputs[0]?.name ?? 'image']: image.reshape(image.shape.slice(1)) };
  },

  async inference(batch, ctx) {
    if (!ctx.session) throw new Error('the archive has no ONNX model');
    const outputs: NamedTensors[] = [];
    for (const picture of batch) outputs.push(await ctx.session.run(picture));
    return outputs;
  },

  postprocess(outputs, ctx) {
    const numbers = (name: string) => Array.from(outputs[name]?.data ?? [], Number);
    const [boxes, classes, scores] = [numbers('boxes'), numbers('labels'), numbers('scores')];
    return scores.flatMap((score, at) => {
      const label = ctx.state.labels?.[String(classes[at])] ?? String(classes[at]);
      return score < threshold ? [] : [{ [label]: boxes.slice(at * 4, at * 4 + 4), score }];
    });
  },
});
`;

const textClassifier = `// In the place of TorchServe's text_classifier: {class: probability}.
import { defineHandler, tensor } from '@onnxserve/handler-kit';
import { softmax } from '@onnxserve/handler-kit/postprocess';

export default defineHandler({
  async load(ctx) {
    return {
      vocabulary: new Map(Object.entries(await ctx.model.json<Record<string, number>>('source_vocab.json'))),
      labels: await ctx.model.json<Record<string, string>>('index_to_name.json').catch(() => undefined),
    };
  },

  preprocess(request, ctx) {
    // As the Python handler did, but for its list of contractions ("don't" to "do not").
    const text = request
      .text()
      .replaceAll(/<[^<]+?>/g, '')
      .toLowerCase()
      .normalize('NFKD')
      .replaceAll(/[\\u0300-\\u036f]/g, '')
      .replaceAll(/[^\\w\\s]|_/g, ' ');
    const words = text.split(/\\s+/).filter(Boolean);
    const tokens = [...words, ...words.slice(1).map((word, at) => \`\${words[at]} \${word}\`)];
    const unknown = ctx.state.vocabulary.get('<unk>') ?? 0;
    const ids = tokens.map((token) => BigInt(ctx.state.vocabulary.get(token) ?? unknown));
    return { [ctx.session?.inputs[0]?.name ?? 'input']: tensor('INT64', [1, ids.length], ids) };
  },

  postprocess(outputs, ctx) {
    const scores = softmax(outputs[ctx.session?.outputs[0]?.name ?? 'output']);
    return Object.fromEntries(Array.from(scores.data as Float32Array, (score, at) => [ctx.state.labels?.[at] ?? at, score]));
  },
});
`;

/** `handler.ts` for the handlers that have no bundled counterpart. */
export const bundledSkeletons: Readonly<Record<string, string>> = {
  image_segmenter: imageSegmenter,
  object_detector: objectDetector,
  text_classifier: textClassifier,
};
