import type { HandlerContext } from '../context.js';
import { parseJson } from '../decode/json.js';
import { PredictionError } from '../errors.js';
import { defineHandler, type HandlerResult } from '../handler.js';
import type { InferenceRequest } from '../request.js';
import type { NamedTensors } from '../tensor.js';
import { tensorsFromJson } from './tensor-input.js';

/**
 * The default preprocess: the tensors of an Open Inference request, else a JSON body that names them.
 * @throws {PredictionError} 400 naming the input, what it wants and what it got
 */
export function tensorPreprocess(request: InferenceRequest, ctx: HandlerContext<unknown>): NamedTensors {
  if (request.tensors !== undefined) return request.tensors;
  if (!ctx.session) throw new PredictionError(`model "${ctx.model.name}" has no ONNX session that could take tensors`, 500);
  return tensorsFromJson(parseJson(request.text(), true), ctx.session.inputs);
}

/** The default postprocess: the tensors themselves, which every protocol writes in its own form. */
export function tensorPostprocess(outputs: NamedTensors): HandlerResult {
  return outputs;
}

/** Speaks tensors: what a model without a handler does. */
export default defineHandler({ preprocess: tensorPreprocess, postprocess: tensorPostprocess });
