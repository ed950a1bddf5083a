import type { SessionHandle } from '../context.js';
import { decodeText } from '../decode/charset.js';
import { PredictionError } from '../errors.js';
import { defineHandler } from '../handler.js';
import { l2normalize } from '../postprocess/activation.js';
import { meanPooling } from '../postprocess/pooling.js';
import { loadTokenizer } from '../preprocess/text.js';
import type { InferenceRequest } from '../request.js';
import { type NamedTensors, Tensor } from '../tensor.js';
import { toNumbers } from '../convert.js';
import { HandlerConfig } from './config.js';

interface Texts {
  readonly texts: readonly string[];
  readonly asList: boolean;
}

/**
 * Text in, a vector out. Body: text, or JSON: a text, a list of texts, or either under `text`, `inputs` or `instances`; or a BYTES tensor. One text gives
 * its vector, a list a list of vectors. The archive holds `tokenizer.json`. Free keys of `model-config.yaml`:
 * `maxLength`, `pooling` (`mean` or `cls`), `normalize` (true), `tokenizer` (file name).
 */
export default defineHandler({
  async load(ctx) {
    const config = new HandlerConfig(ctx.model.config);
    const maxLength = config.number('maxLength', Infinity);
    if (!ctx.session) throw new Error(`text_embedding needs an ONNX model, "${ctx.model.name}" has none`);
    return {
      session: ctx.session,
      tokenizer: await loadTokenizer(
        ctx.model.path(config.text('tokenizer', 'tokenizer.json')),
        maxLength === Infinity ? {} : { maxLength },
      ),
      pooling: config.oneOf('pooling', ['mean', 'cls'], 'mean'),
      normalize: config.boolean('normalize', true),
    };
  },

  preprocess: (request) => textsOf(request),

  /** Texts of all requests share one run, padded to the longest; the mask keeps padding out of the result. */
  async inference(batch, ctx) {
    const { session, tokenizer, pooling, normalize } = ctx.state;
    const encoded = await tokenizer.encode(batch.flatMap((item) => item.texts));
    const outputs = await session.run(feedsFor(session, encoded));
    const hidden = outputs[session.outputs[0]!.name]!;
    const pooled =
      hidden.shape.length === 2 ? hidden : pooling === 'mean' ? meanPooling(hidden, encoded.attention_mask) : firstTokens(hidden);
    const vectors = toNumbers(normalize ? l2normalize(pooled) : pooled);
    const size = pooled.shape[1]!;
    let row = 0;
    return batch.map(({ texts, asList }) => {
      const rows = texts.map(() => vectors.subarray(row * size, ++row * size));
      return { rows, asList };
    });
  },

  postprocess: ({ rows, asList }) => (asList ? rows : Array.from(rows[0]!)),
});

function textsOf(request: InferenceRequest): Texts {
  if (request.tensors !== undefined) return { texts: textsOfTensors(request.tensors), asList: true };
  if (request.contentType !== 'application/json') return { texts: [request.text()], asList: false };
  let body = request.json();
  for (const key of ['instances', 'inputs', 'text']) {
    if (typeof body === 'object' && body !== null && key in body) body = (body as Record<string, unknown>)[key];
  }
  const texts: unknown[] = Array.isArray(body) ? body : [body];
  if (texts.length === 0) throw new PredictionError('the list of texts is empty', 400);
  const wrong = texts.findIndex((text) => typeof text !== 'string');
  if (wrong !== -1) throw new PredictionError(`text ${wrong} should be text, got ${typeof texts[wrong]}`, 400);
  return { texts: texts as string[], asList: Array.isArray(body) };
}

function textsOfTensors(tensors: NamedTensors): string[] {
  const found = Object.values(tensors).find(({ datatype }) => datatype === 'BYTES');
  if (!found) throw new PredictionError('text is wanted: send a BYTES tensor that holds the texts', 400);
  const texts = found.data as ReadonlyArray<string | Uint8Array>;
  if (texts.length === 0) throw new PredictionError('the list of texts is empty', 400);
  return texts.map((text) => (typeof text === 'string' ? text : decodeText(text, undefined)));
}

function feedsFor(session: SessionHandle, encoded: NamedTensors): NamedTensors {
  return Object.fromEntries(
    session.inputs.map(({ name, datatype }) => {
      const tensor = encoded[name];
      if (!tensor) throw new Error(`the model wants the input "${name}", which a tokenizer does not give`);
      if (datatype === 'INT64') return [name, tensor];
      if (datatype === 'INT32') return [name, new Tensor('INT32', tensor.shape, Int32Array.from(toNumbers(tensor)))];
      throw new Error(`the model wants "${name}" as ${datatype}; token ids are INT64 or INT32`);
    }),
  );
}

function firstTokens(hidden: Tensor): Tensor<'FP32'> {
  const [rows = 0, tokens = 0, size = 0] = hidden.shape;
  const values = toNumbers(hidden);
  const first = new Float32Array(rows * size);
  for (let row = 0; row < rows; row++) first.set(values.subarray(row * tokens * size, row * tokens * size + size), row * size);
  return new Tensor('FP32', [rows, size], first);
}
