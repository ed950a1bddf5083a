import { isDatatype, type NamedTensors, PredictionError, tensor, type Tensor, type TensorValues } from '@onnxserve/handler-kit';
import { stringify } from '@onnxserve/handler-kit/internal';

export interface InferRequest {
  /** Undefined when the client gave none, or blanks. */
  readonly id: string | undefined;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly tensors: NamedTensors;
  /** Outputs asked for by name; undefined: all. */
  readonly outputs: readonly string[] | undefined;
}

/**
 * The inference request of a JSON body, parsed so that whole numbers beyond 2^53 are BigInt.
 * @throws {PredictionError} 400 naming the member or input, what it is and what is wanted
 */
export function readInferRequest(body: unknown): InferRequest {
  if (!isRecord(body))
    throw refuse(`the body should be {"inputs": [{"name", "shape", "datatype", "data"}]}, got ${kindOf(body)}`);
  const { id, parameters, inputs, outputs } = body;
  if (id !== undefined && id !== null && typeof id !== 'string') throw refuse(`"id" should be text, got ${kindOf(id)}`);
  return {
    id: typeof id === 'string' && id.trim() !== '' ? id : undefined,
    parameters: readParameters(parameters),
    tensors: readInputs(inputs),
    outputs: readOutputs(outputs),
  };
}

function readInputs(inputs: unknown): NamedTensors {
  if (!Array.isArray(inputs)) {
    throw refuse(`"inputs" should be an array of tensors {"name", "shape", "datatype", "data"}, got ${kindOf(inputs)}`);
  }
  if (inputs.length === 0) throw refuse('"inputs" is empty, at least one tensor is needed');
  const tensors: NamedTensors = {};
  for (const [index, input] of inputs.entries()) {
    if (!isRecord(input)) throw refuse(`inputs[${index}] should be an object, got ${kindOf(input)}`);
    const { name } = input;
    if (typeof name !== 'string' || name === '') throw refuse(`inputs[${index}] has no "name"`);
    if (Object.hasOwn(tensors, name)) throw refuse(`input ${shown(name)} is given twice`);
    Object.defineProperty(tensors, name, {
      value: readTensor(name, input),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return tensors;
}

function readTensor(name: string, { datatype, shape, data }: Record<string, unknown>): Tensor {
  const input = `input ${shown(name)}`;
  if (datatype === undefined) throw refuse(`${input} has no "datatype"`);
  if (!isDatatype(datatype)) throw refuse(`${input} has the unknown datatype ${text(datatype)}`);
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw refuse(`${input} needs a "shape" that is a list of whole numbers, got ${text(shape)}`);
  }
  if (data === undefined) throw refuse(`${input} has no "data"; tensors in binary form are not supported`);
  try {
    return tensor(datatype, shape as number[], data as TensorValues);
  } catch (error) {
    if (error instanceof PredictionError) throw new PredictionError(`${input}: ${error.message}`, error.status);
    throw error;
  }
}

function readParameters(parameters: unknown): Record<string, string | number | boolean> {
  if (parameters === undefined || parameters === null) return {};
  if (!isRecord(parameters)) throw refuse(`"parameters" should be an object, got ${kindOf(parameters)}`);
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => {
      if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return [name, value];
      // Exact, where a number would not be.
      if (typeof value === 'bigint') return [name, value.toString()];
      throw refuse(`parameter ${shown(name)} should be text, a number or a boolean, got ${kindOf(value)}`);
    }),
  );
}

function readOutputs(outputs: unknown): readonly string[] | undefined {
  if (outputs === undefined || outputs === null) return undefined;
  if (!Array.isArray(outputs)) throw refuse(`"outputs" should be an array of {"name"}, got ${kindOf(outputs)}`);
  if (outputs.length === 0) return undefined;
  return outputs.map((output: unknown, index) => {
    if (isRecord(output) && typeof output['name'] === 'string') return output['name'];
    throw refuse(`outputs[${index}] has no "name"`);
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  return value === undefined ? 'nothing' : value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value;
}

function text(value: unknown): string {
  return (stringify(value) ?? 'nothing').slice(0, 80);
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 200));
}

function refuse(message: string): PredictionError {
  return new PredictionError(message, 400);
}
