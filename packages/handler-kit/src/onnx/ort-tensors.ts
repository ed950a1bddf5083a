import type * as Ort from 'onnxruntime-node';
import type { TensorSignature } from '../context.js';
import type { BytesElement, Datatype } from '../datatype.js';
import { Tensor } from '../tensor.js';

/** onnxruntime's names of the element types. It has no BF16 on the outside. */
const typeOf: Record<Exclude<Datatype, 'BF16'>, Ort.Tensor.Type> = {
  BOOL: 'bool',
  UINT8: 'uint8',
  UINT16: 'uint16',
  UINT32: 'uint32',
  UINT64: 'uint64',
  INT8: 'int8',
  INT16: 'int16',
  INT32: 'int32',
  INT64: 'int64',
  FP16: 'float16',
  FP32: 'float32',
  FP64: 'float64',
  BYTES: 'string',
};
const datatypeOf = new Map(Object.entries(typeOf).map(([datatype, type]) => [type as string, datatype as Datatype]));

/** @throws {Error} naming an input or output of a type that is not supported */
export function signatureOf(meta: Ort.InferenceSession.ValueMetadata): TensorSignature {
  if (!meta.isTensor) throw new Error(`"${meta.name}" is not a tensor; sequences and maps are not supported`);
  const datatype = datatypeOf.get(meta.type);
  if (datatype === undefined) throw new Error(`"${meta.name}" has the element type ${meta.type}, which is not supported`);
  return { name: meta.name, datatype, shape: meta.shape.map((size) => (size === '' ? -1 : size)) };
}

/** The tensor for the engine, over the same memory. */
export function toOrt(ort: Pick<typeof Ort, 'Tensor'>, { datatype, shape, data }: Tensor): Ort.Tensor {
  if (datatype === 'BF16') throw new Error('onnxruntime-node takes no BF16 tensors');
  if (datatype === 'BYTES') return new ort.Tensor('string', (data as BytesElement[]).map(textOf), shape);
  return new ort.Tensor(typeOf[datatype], data as never, shape);
}

/** What the engine gave, over the same memory. */
export function fromOrt(tensor: Ort.Tensor): Tensor {
  const datatype = datatypeOf.get(tensor.type);
  if (datatype === undefined) throw new Error(`an output has the element type ${tensor.type}, which is not supported`);
  return new Tensor(datatype, tensor.dims, tensor.data);
}

/**
 * Where Node has Float16Array, onnxruntime's JavaScript makes half floats of it, which its native part cannot read. It looks once,
 * when the first tensor is made; not finding it, it goes on with the raw bits in a Uint16Array, which both parts understand.
 * Call this before the first tensor is made.
 */
export function keepHalfFloatsAsBits(ort: Pick<typeof Ort, 'Tensor'>): void {
  const scope = globalThis as { Float16Array?: unknown };
  const float16 = Object.getOwnPropertyDescriptor(scope, 'Float16Array');
  if (float16 === undefined) return;
  delete scope.Float16Array;
  const first = new ort.Tensor('bool', new Uint8Array(1), [1]);
  Object.defineProperty(scope, 'Float16Array', float16);
  if (first.size !== 1) throw new Error('onnxruntime-node made a tensor of the wrong size');
}

function textOf(element: BytesElement): string {
  return typeof element === 'string' ? element : Buffer.from(element).toString('utf8');
}
