import { type NamedTensors, PredictionError, shapeOfNested, type Tensor, toNumbers } from '@onnxserve/handler-kit';
import { readable, stringify } from '@onnxserve/handler-kit/internal';

export interface ResponseHead {
  readonly model: string;
  readonly version: string;
  /** Echoed when the client gave one. */
  readonly id: string | undefined;
}

/**
 * The answer as JSON text. NaN and infinities become null, INT64 and UINT64 keep every digit, bytes that are no UTF-8 are base64.
 * @param outputs names asked for; undefined: all
 * @throws {PredictionError} 400 for a name that is no output
 */
export function tensorsResponse(head: ResponseHead, tensors: NamedTensors, outputs: readonly string[] | undefined): string {
  const names = outputs ?? Object.keys(tensors);
  const written = names.map((name) => {
    const tensor = Object.hasOwn(tensors, name) ? tensors[name] : undefined;
    if (tensor !== undefined) return outputText(name, tensor.datatype, tensor.shape, elementsText(tensor));
    const known = Object.keys(tensors).map((it) => JSON.stringify(it));
    throw new PredictionError(
      `the model has no output ${JSON.stringify(name.slice(0, 200))}; its outputs are ${known.join(', ')}`,
      400,
    );
  });
  return responseText(head, written);
}

/**
 * The answer for a result that is no tensors: an object with `outputs` is an answer already and gets what it lacks; rectangular lists
 * of numbers, booleans or text become a tensor; anything else is one BYTES element, text as it is and the rest as JSON.
 * @param value parsed so that whole numbers beyond 2^53 are BigInt
 * @param name what to call the one output
 */
export function valueResponse(head: ResponseHead, value: unknown, name: string): string {
  if (isRecord(value) && Array.isArray(value['outputs'])) {
    const { model, version, id } = head;
    return stringify({ model_name: model, model_version: version, ...(id === undefined ? {} : { id }), ...value })!;
  }
  const { datatype, shape, flat } = inferred(value);
  return responseText(head, [outputText(name, datatype, shape, stringify(flat)!)]);
}

function inferred(value: unknown): { datatype: string; shape: readonly number[]; flat: readonly unknown[] } {
  const shape = Array.isArray(value) ? shapeOfNested(value) : [1];
  const flat: unknown[] = Array.isArray(value) ? value.flat(Infinity) : [value];
  const rectangular = !Array.isArray(value) || isRectangular(value, shape, 0);
  const every = (is: (element: unknown) => boolean) => rectangular && flat.length > 0 && flat.every(is);
  if (every((it) => typeof it === 'boolean')) return { datatype: 'BOOL', shape, flat };
  if (every((it) => (typeof it === 'bigint' ? fitsInt64(it) : Number.isSafeInteger(it))))
    return { datatype: 'INT64', shape, flat };
  if (every((it) => typeof it === 'number' || typeof it === 'bigint')) return { datatype: 'FP64', shape, flat };
  if (every((it) => typeof it === 'string')) return { datatype: 'BYTES', shape, flat };
  return { datatype: 'BYTES', shape: [1], flat: [stringify(value) ?? 'null'] };
}

function isRectangular(values: readonly unknown[], shape: readonly number[], axis: number): boolean {
  if (values.length !== shape[axis]) return false;
  const leaf = axis === shape.length - 1;
  return values.every((value) => (leaf ? !Array.isArray(value) : Array.isArray(value) && isRectangular(value, shape, axis + 1)));
}

function fitsInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

function elementsText(tensor: Tensor): string {
  const { datatype, data } = tensor;
  if (datatype === 'BOOL') return stringify(Array.from(data as Uint8Array, (value) => value !== 0))!;
  if (datatype === 'BYTES') return stringify(readable(data))!;
  return stringify(datatype === 'FP16' || datatype === 'BF16' ? toNumbers(tensor) : data)!;
}

function outputText(name: string, datatype: string, shape: readonly number[], data: string): string {
  return `{"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(',')}],"data":${data}}`;
}

function responseText({ model, version, id }: ResponseHead, outputs: readonly string[]): string {
  const echoed = id === undefined ? '' : `"id":${JSON.stringify(id)},`;
  return `{${echoed}"model_name":${JSON.stringify(model)},"model_version":${JSON.stringify(version)},"outputs":[${outputs.join(',')}]}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
