import { parseJson } from '@onnxserve/handler-kit/internal';
import { ServeError } from '../../domain/errors.js';
import {
  contentsFields,
  type InferParameter,
  type InferParameters,
  type InferTensor,
  type ModelInferResponse,
} from './grpc-messages.js';

export interface ResponseDefaults {
  readonly model: string;
  readonly version: string;
  readonly id: string;
}

/**
 * The message that says what a JSON answer of the Open Inference Protocol says.
 * @throws {ServeError} HANDLER_FAILED when the model's answer is none
 */
export function responseMessage(body: Buffer, defaults: ResponseDefaults): ModelInferResponse {
  const answer = parsed(body);
  const { outputs, id, parameters, model_name, model_version } = answer;
  if (!Array.isArray(outputs)) throw wrong('it has no list "outputs"');
  return {
    model_name: typeof model_name === 'string' ? model_name : defaults.model,
    model_version: typeof model_version === 'string' ? model_version : defaults.version,
    id: typeof id === 'string' ? id : defaults.id,
    parameters: inferParameters(parameters),
    outputs: outputs.map(outputTensor),
  };
}

function parsed(body: Buffer): Record<string, unknown> {
  let answer: unknown;
  try {
    answer = parseJson(body.toString('utf8'), true);
  } catch (error) {
    throw wrong((error as Error).message);
  }
  if (!isRecord(answer)) throw wrong('it is no JSON object');
  return answer;
}

function outputTensor(output: unknown, index: number): InferTensor {
  if (!isRecord(output)) throw wrong(`outputs[${index}] is no object`);
  const { name, datatype, shape, data, parameters } = output;
  if (typeof name !== 'string' || typeof datatype !== 'string' || !Array.isArray(shape) || !Array.isArray(data)) {
    throw wrong(`outputs[${index}] lacks a name, a datatype, a shape or data`);
  }
  const field = contentsFields[datatype];
  if (field === undefined) throw wrong(`output "${name}" has the datatype ${datatype}, which has no typed contents`);
  const flat: unknown[] = data.flat(Infinity);
  return {
    name,
    datatype,
    shape: shape.map(String),
    parameters: inferParameters(parameters),
    contents: { [field]: flat.map((value) => element(value, datatype, name)) },
  };
}

/** Checked, since the protobuf library would write zero for what it does not understand. */
function element(value: unknown, datatype: string, output: string): unknown {
  switch (datatype) {
    case 'BOOL':
      if (typeof value === 'boolean') return value;
      break;
    case 'BYTES':
      return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
    case 'INT64':
    case 'UINT64':
      if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value);
      break;
    case 'FP32':
    case 'FP64':
      if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
      break;
    default:
      if (Number.isInteger(value)) return value;
  }
  throw wrong(`output "${output}" of datatype ${datatype} holds ${String(value).slice(0, 40)}`);
}

function inferParameters(parameters: unknown): InferParameters {
  if (!isRecord(parameters)) return {};
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, parameter(value)]));
}

function parameter(value: unknown): InferParameter {
  if (typeof value === 'boolean') return { bool_param: value };
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return { int64_param: String(value) };
  return { string_param: typeof value === 'string' ? value : JSON.stringify(value) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function wrong(why: string): ServeError {
  return new ServeError(
    'HANDLER_FAILED',
    `The model's answer is no answer of the Open Inference Protocol: ${why}. Call Predictions to get it as it is.`,
  );
}
