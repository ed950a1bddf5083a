import type * as Ort from 'onnxruntime-node';
import type { SessionHandle, TensorSignature } from '../context.js';
import type { BytesElement, Datatype } from '../datatype.js';
import { PredictionError } from '../errors.js';
import { optionalPeer } from '../optional-peer.js';
import { type NamedTensors, Tensor } from '../tensor.js';
import { checkFeeds } from './check-feeds.js';

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

/**
 * A model on the CPU in this process, through `onnxruntime-node`. `run` blocks the calling thread, as tests may.
 * @param file path of the `.onnx` file, or its bytes
 * @throws when `onnxruntime-node` is not installed or cannot read the model
 */
export async function realSession(file: string | Uint8Array): Promise<SessionHandle> {
  const ort = await optionalPeer<typeof Ort>('onnxruntime-node', () => import('onnxruntime-node'));
  const session = typeof file === 'string' ? await ort.InferenceSession.create(file) : await ort.InferenceSession.create(file);
  const inputs = session.inputMetadata.map(signature);
  return {
    inputs,
    outputs: session.outputMetadata.map(signature),
    providers: ['cpu'],
    async run(feeds, wanted) {
      checkFeeds(feeds, inputs);
      const given = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, toOrt(ort, tensor)]));
      const results = wanted === undefined ? await session.run(given) : await session.run(given, [...wanted]);
      const named: NamedTensors = {};
      for (const [name, value] of Object.entries(results)) named[name] = fromOrt(value);
      return named;
    },
  };
}

function signature(meta: Ort.InferenceSession.ValueMetadata): TensorSignature {
  const datatype = meta.isTensor ? datatypeOf.get(meta.type) : undefined;
  if (!meta.isTensor || !datatype) throw new Error(`"${meta.name}" is of a type that is not supported`);
  return { name: meta.name, datatype, shape: meta.shape.map((size) => (size === '' ? -1 : size)) };
}

// Nodes that have Float16Array want FP16 in it, the others as raw bits.
const Float16 = (globalThis as { Float16Array?: new (buffer: ArrayBufferLike, offset: number, length: number) => Uint16Array })
  .Float16Array;

function toOrt(ort: typeof Ort, { datatype, shape, data }: Tensor): Ort.Tensor {
  if (datatype === 'BF16') throw new Error('onnxruntime-node takes no BF16 tensors');
  if (datatype === 'BYTES') {
    const strings = (data as BytesElement[]).map(textOf);
    return new ort.Tensor('string', strings, shape);
  }
  const bits = data as Uint16Array;
  const values = datatype === 'FP16' && Float16 ? new Float16(bits.buffer, bits.byteOffset, bits.length) : bits;
  return new ort.Tensor(typeOf[datatype], values as never, shape);
}

function textOf(element: BytesElement): string {
  const text = typeof element === 'string' ? element : Buffer.from(element).toString('utf8');
  if (text.includes('\0'))
    throw new PredictionError('onnxruntime cuts text at a NUL character, so none may be in a BYTES tensor', 400);
  return text;
}

function fromOrt(tensor: Ort.Tensor): Tensor {
  const datatype = datatypeOf.get(tensor.type);
  if (!datatype) throw new Error(`an output is of the type ${tensor.type}, which is not supported`);
  let data: unknown = tensor.data;
  if (Float16 && data instanceof Float16) {
    const view = data as unknown as ArrayBufferView & { length: number };
    data = new Uint16Array(view.buffer, view.byteOffset, view.length);
  }
  return new Tensor(datatype, tensor.dims, data as never);
}
