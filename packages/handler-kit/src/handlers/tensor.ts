import type { HandlerContext } from '../context.js';
import { toArray } from '../convert.js';
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

/** The default postprocess: a JSON object of nested arrays by output name. */
export function tensorPostprocess(outputs: NamedTensors): HandlerResult {
  return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, readable(toArray(value))]));
}

/** Bytes that are no UTF-8 have no form in JSON; they go as base64. */
function readable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readable);
  if (!(value instanceof Uint8Array)) return value;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(value);
  } catch {
    return Buffer.from(value).toString('base64');
  }
}

/** Speaks tensors: what a model without a handler does. */
export default defineHandler({ preprocess: tensorPreprocess, postprocess: tensorPostprocess });
