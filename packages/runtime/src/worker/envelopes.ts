import { type InferenceRequest, type NamedTensors, PredictionError, type TensorSignature } from '@onnxserve/handler-kit';
import { parseJson, type RequestInit, stringify, tensorsFromJson, tensorToJson } from '@onnxserve/handler-kit/internal';
import type { Envelope } from '../domain/envelope.js';
import { instancesOf, predictionsText } from '../protocol/kserve-v1/instances.js';
import { readInferRequest } from '../protocol/open-inference/infer-request.js';
import { tensorsResponse, valueResponse } from '../protocol/open-inference/infer-response.js';
import type { PartResult } from './part-result.js';

/** What a handler's request has in place of that of the request it came in. */
export type PartInit = Partial<Pick<RequestInit, 'body' | 'parts' | 'value' | 'tensors' | 'parameters' | 'queryIsInput'>>;

export type Unwrapped =
  /** One request, answered in the handler's own form. */
  | { readonly kind: 'plain'; readonly part: PartInit }
  /** One or more, whose results make one JSON text in the order of the parts. */
  | { readonly kind: 'joined'; readonly parts: readonly PartInit[]; readonly join: (results: readonly PartResult[]) => string };

export interface EnvelopeModel {
  readonly name: string;
  readonly version: string;
  /** What the model takes, when its handler has no preprocess of its own: tensors are made of the values then. */
  readonly inputs: readonly TensorSignature[] | undefined;
}

/**
 * Takes a request out of its envelope, and says how the results go back into one.
 * @throws {PredictionError} 4xx naming what is wrong with the body
 */
export function unwrap(envelope: Envelope, request: InferenceRequest, model: EnvelopeModel): Unwrapped {
  switch (envelope) {
    case 'body':
      return { kind: 'plain', part: mainPart(request) };
    case 'json':
    case 'kserve': {
      const v1 = envelope === 'kserve';
      const instances = instancesOf(parseJson(request.text(), model.inputs !== undefined), v1);
      const key = v1 && request.kind === 'explain' ? 'explanations' : 'predictions';
      return {
        kind: 'joined',
        parts: instances.map((json, index) => ({ value: { json }, tensors: instanceTensors(json, index, model.inputs) })),
        join: (results) => predictionsText(key, results.map(predictionText)),
      };
    }
    case 'kservev2': {
      const { id, parameters, tensors, outputs } = readInferRequest(parseJson(request.text(), true));
      const head = { model: model.name, version: model.version, id };
      const names = Object.keys(tensors);
      return {
        kind: 'joined',
        parts: [{ tensors, parameters }],
        join: ([result]) =>
          result!.tensors === undefined
            ? valueResponse(head, parseJson(result!.json(), true), names.length === 1 ? names[0]! : 'output')
            : tensorsResponse(head, result!.tensors, outputs),
      };
    }
  }
}

/** The part that a handler of TorchServe looks for. */
function mainPart(request: InferenceRequest): PartInit {
  const parts = request.parts();
  const main = parts.findLast(({ name }) => name === 'data') ?? parts.findLast(({ name }) => name === 'body') ?? parts[0];
  if (main === undefined || (parts.length === 1 && main.name === 'body')) return {};
  return { body: main.data, parts: [['body', main.data.byteLength]], queryIsInput: false };
}

function instanceTensors(json: unknown, index: number, inputs: readonly TensorSignature[] | undefined): NamedTensors | undefined {
  if (inputs === undefined) return undefined;
  try {
    return tensorsFromJson({ instances: [json] }, inputs);
  } catch (error) {
    if (!(error instanceof PredictionError)) throw error;
    throw new PredictionError(`instance ${index}: ${error.message.replace(/^instance 0 /, 'it ')}`, error.status, {
      reason: error.reason,
    });
  }
}

/** An instance is one row, so its prediction is one: the row of the only output, or of each by name. */
function predictionText(result: PartResult): string {
  const { tensors } = result;
  if (tensors === undefined) return result.json();
  const rows = Object.entries(tensors).map(([name, tensor]) => {
    const value = tensorToJson(tensor);
    return [name, Array.isArray(value) && value.length === 1 ? (value[0] as unknown) : value] as const;
  });
  return stringify(rows.length === 1 ? rows[0]![1] : Object.fromEntries(rows)) ?? 'null';
}
