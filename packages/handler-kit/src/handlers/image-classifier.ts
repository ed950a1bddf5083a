import type { LoadContext, TensorSignature } from '../context.js';
import { collate } from '../collate.js';
import { defineHandler } from '../handler.js';
import { sigmoid, softmax } from '../postprocess/activation.js';
import { type Labels, type Ranked, topKRows } from '../postprocess/top-k.js';
import { imagenet, imageTensor, type ImageTensorOptions } from '../preprocess/image.js';
import { pixelLimit } from '../preprocess/pixel-limit.js';
import { Tensor } from '../tensor.js';
import { HandlerConfig } from './config.js';
import { picturesOf } from './image-source.js';

interface State {
  readonly input: string;
  readonly output: string;
  readonly image: ImageTensorOptions;
  readonly topK: number;
  readonly activation: 'softmax' | 'sigmoid' | 'none';
  readonly labels: Labels | undefined;
}

const imageKeys = ['size', 'shortestSide', 'mode', 'kernel', 'channelOrder', 'layout', 'mean', 'std', 'scale', 'maxPixels'];
const requests = new WeakMap<object, { readonly asList: boolean }>();

/**
 * Picture in, the best classes out: `{label: probability}`, best first; for instances a list of them under `predictions`.
 * Labels come from `index_to_name.json` of the archive. Free keys of `model-config.yaml`: `topK` (5), `activation`
 * (`softmax`, `sigmoid` or `none`), and under `image`: `size`, `shortestSide`, `mode` (`crop`, `stretch`, `letterbox`), `kernel`,
 * `channelOrder`, `layout`, `mean`, `std`, `scale`, `maxPixels`. The defaults are those of ImageNet models; the size is the model's.
 */
export default defineHandler({
  async load(ctx): Promise<State> {
    const { input, output } = signatureOf(ctx);
    const config = new HandlerConfig(ctx.model.config);
    return {
      input: input.name,
      output: output.name,
      image: imageOptions(input, config.section('image').only(imageKeys)),
      topK: config.number('topK', 5),
      activation: config.oneOf('activation', ['softmax', 'sigmoid', 'none'], 'softmax'),
      labels: await labelsOf(ctx),
    };
  },

  async preprocess(request, ctx) {
    const { files, asList } = picturesOf(request);
    requests.set(ctx, { asList });
    const tensors = await Promise.all(files.map((file) => imageTensor(file, ctx.state.image)));
    return collate(tensors.map((tensor) => ({ [ctx.state.input]: tensor })));
  },

  postprocess(outputs, ctx) {
    const { output, activation, topK, labels } = ctx.state;
    const scores = flat(outputs[output]);
    const probabilities = activation === 'softmax' ? softmax(scores) : activation === 'sigmoid' ? sigmoid(scores) : scores;
    const results = topKRows(probabilities, topK, labels).map(byLabel);
    return requests.get(ctx)?.asList === true ? { predictions: results } : results[0]!;
  },
});

/** Some networks answer `[n, classes, 1, 1]`. */
function flat(scores: Tensor | undefined): Tensor | undefined {
  if (!scores || scores.shape.length <= 2) return scores;
  const [rows = 1] = scores.shape;
  return rows === 0 ? scores : scores.reshape([rows, scores.data.length / rows]);
}

/** In a Map, since an object would put labels that are numbers first. */
function byLabel(ranked: readonly Ranked[]): ReadonlyMap<string, number> {
  return new Map(ranked.map(({ label, score }) => [label, score]));
}

function signatureOf({ model, session }: LoadContext): { input: TensorSignature; output: TensorSignature } {
  const [input, ...others] = session?.inputs ?? [];
  const output = session?.outputs[0];
  if (!input || !output || others.length > 0 || input.datatype !== 'FP32' || input.shape.length !== 4) {
    const got = session?.inputs.map((it) => `${it.name} ${it.datatype} [${it.shape.join(', ')}]`).join('; ') ?? 'no model';
    throw new Error(`image_classifier needs a model with one FP32 input of four dimensions; "${model.name}" has ${got}`);
  }
  return { input, output };
}

function imageOptions({ shape }: TensorSignature, config: HandlerConfig): ImageTensorOptions {
  const last = shape[3] === 3 && shape[1] !== 3;
  const [height, width] = (last ? shape.slice(1, 3) : shape.slice(2, 4)).map((size) =>
    typeof size === 'number' && size > 0 ? size : config.number('size', 224),
  ) as [number, number];
  const mode = config.oneOf('mode', ['crop', 'stretch', 'letterbox'], 'crop');
  const kernel = config.oneOf('kernel', ['nearest', 'linear', 'cubic', 'lanczos3'], 'linear');
  // 224 out of 256, as the networks were evaluated, and in that proportion for other sizes.
  const shortestSide = config.number('shortestSide', Math.round((Math.max(width, height) * 256) / 224));
  return {
    resize: mode === 'crop' ? { mode, width, height, kernel, shortestSide } : { mode, width, height, kernel },
    layout: config.oneOf<'NCHW' | 'NHWC'>('layout', ['NCHW', 'NHWC'], last ? 'NHWC' : 'NCHW'),
    channelOrder: config.oneOf<'RGB' | 'BGR'>('channelOrder', ['RGB', 'BGR'], 'RGB'),
    mean: config.triple('mean', imagenet.mean),
    std: config.triple('std', imagenet.std),
    scale: config.number('scale', 1 / 255),
    maxPixels: config.number('maxPixels', pixelLimit()),
  };
}

async function labelsOf({ model }: LoadContext): Promise<Labels | undefined> {
  try {
    return await model.json<Labels>('index_to_name.json');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`index_to_name.json of model "${model.name}" cannot be read: ${(error as Error).message}`, { cause: error });
  }
}
