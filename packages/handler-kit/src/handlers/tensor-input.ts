import type { TensorSignature } from '../context.js';
import { shapeOfNested, tensor, type TensorValues } from '../convert.js';
import { isDatatype } from '../datatype.js';
import { stringify } from '../encode/json.js';
import { PredictionError } from '../errors.js';
import type { NamedTensors, Tensor } from '../tensor.js';

/** Any JSON that names tensors, in the order in which the forms are told apart. */
export const acceptedForms =
  '{"inputs": [{"name", "datatype", "shape", "data"}]}, {"inputs": {name: array}}, {"inputs": array}, {"instances": [...]} or {name: array}';

/**
 * Tensors from a JSON body, of the datatypes that the model's signature names.
 * @throws {PredictionError} 400 naming the input, what it wants and what it got
 */
export function tensorsFromJson(body: unknown, inputs: readonly TensorSignature[]): NamedTensors {
  if (Array.isArray(body)) return { [onlyInput(inputs).name]: fromNested(onlyInput(inputs), body) };
  if (!isRecord(body)) throw new PredictionError(`the body should be ${acceptedForms}, got ${typeName(body)}`, 400);
  const { inputs: given, instances } = body;
  if (instances !== undefined && !inputs.some((input) => input.name === 'instances')) return fromInstances(instances, inputs);
  if (given !== undefined && !inputs.some((input) => input.name === 'inputs')) {
    if (Array.isArray(given) && given.length > 0 && given.every((item) => isRecord(item) && 'datatype' in item)) {
      return fromEntries(
        given.map((item) => openInference(item as Record<string, unknown>, inputs)),
        inputs,
      );
    }
    if (isRecord(given)) return fromObject(given, inputs);
    return { [onlyInput(inputs).name]: fromNested(onlyInput(inputs), given) };
  }
  return fromObject(body, inputs);
}

/** Instances are rows: values of the only input, or objects of values by input name. */
function fromInstances(instances: unknown, inputs: readonly TensorSignature[]): NamedTensors {
  if (!Array.isArray(instances)) throw new PredictionError(`"instances" should be an array, got ${typeName(instances)}`, 400);
  if (instances.length === 0) throw new PredictionError('"instances" is empty, at least one is needed', 400);
  if (!instances.every((instance) => isRecord(instance))) {
    return { [onlyInput(inputs).name]: fromNested(onlyInput(inputs), instances) };
  }
  return fromEntries(
    inputs.map((input) => {
      const rows = instances.map((instance: Record<string, unknown>, index) => {
        if (!Object.hasOwn(instance, input.name)) throw new PredictionError(`instance ${index} has no "${input.name}"`, 400);
        return instance[input.name];
      });
      return [input.name, fromNested(input, rows)];
    }),
    inputs,
    instances.flatMap((instance: Record<string, unknown>) => Object.keys(instance)),
  );
}

function fromObject(values: Readonly<Record<string, unknown>>, inputs: readonly TensorSignature[]): NamedTensors {
  return fromEntries(
    inputs
      .filter((input) => Object.hasOwn(values, input.name))
      .map((input) => [input.name, fromNested(input, values[input.name])]),
    inputs,
    Object.keys(values),
  );
}

function openInference(item: Record<string, unknown>, inputs: readonly TensorSignature[]): [string, Tensor] {
  const { name, datatype, shape, data } = item;
  const input = inputs.find((it) => it.name === name);
  if (!input) throw unknownInput(String(name), inputs);
  if (!isDatatype(datatype))
    throw new PredictionError(`input "${input.name}" has the unknown datatype ${stringify(datatype)}`, 400);
  if (datatype !== input.datatype)
    throw new PredictionError(`input "${input.name}" expects ${input.datatype}, got ${datatype}`, 400);
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw new PredictionError(`input "${input.name}" has a shape that is not a list of whole numbers: ${stringify(shape)}`, 400);
  }
  return [input.name, named(input, () => tensor(datatype, shape as number[], data as TensorValues))];
}

function fromNested(input: TensorSignature, values: unknown): Tensor {
  return named(input, () => tensor(input.datatype, shapeOfNested(values), values as TensorValues));
}

function named(input: TensorSignature, make: () => Tensor): Tensor {
  try {
    return make();
  } catch (error) {
    if (error instanceof PredictionError) throw new PredictionError(`input "${input.name}": ${error.message}`, error.status);
    throw error;
  }
}

function fromEntries(
  entries: Array<[string, Tensor]>,
  inputs: readonly TensorSignature[],
  given?: readonly string[],
): NamedTensors {
  for (const name of given ?? []) if (!inputs.some((input) => input.name === name)) throw unknownInput(name, inputs);
  const tensors: NamedTensors = {};
  for (const [name, value] of entries) {
    if (Object.hasOwn(tensors, name)) throw new PredictionError(`input "${name}" is given twice`, 400);
    tensors[name] = value;
  }
  const absent = inputs.find((input) => !Object.hasOwn(tensors, input.name));
  if (absent)
    throw new PredictionError(`input "${absent.name}" (${absent.datatype} [${absent.shape.join(', ')}]) is missing`, 400);
  return tensors;
}

function onlyInput(inputs: readonly TensorSignature[]): TensorSignature {
  if (inputs.length === 1) return inputs[0]!;
  throw new PredictionError(`the model has the inputs ${names(inputs)}; name each in the body`, 400);
}

function unknownInput(name: string, inputs: readonly TensorSignature[]): PredictionError {
  return new PredictionError(`the model has no input "${name}"; its inputs are ${names(inputs)}`, 400);
}

function names(inputs: readonly TensorSignature[]): string {
  return inputs.map((input) => `"${input.name}"`).join(', ');
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function typeName(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value;
}
