import { type DataOf, type Datatype, elementSize, typedArrayOf } from './datatype.js';
import { PredictionError } from './errors.js';

const brand: unique symbol = Symbol.for('onnxserve.Tensor') as never;

/** Number of elements of a shape; 1 for a scalar (`[]`). */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dimension of shape) count *= dimension;
  return count;
}

/** An n-dimensional array in row-major order. `data.length` is always the product of `shape`. */
export class Tensor<D extends Datatype = Datatype> {
  readonly datatype: D;
  readonly shape: readonly number[];
  readonly data: DataOf[D];

  /**
   * @param shape dimensions, each a non-negative integer; `[]` is a scalar
   * @throws {PredictionError} 400 when `data` does not have exactly the number of elements that `shape` names
   */
  constructor(datatype: D, shape: readonly number[], data: DataOf[D]) {
    for (const dimension of shape) {
      if (!Number.isSafeInteger(dimension) || dimension < 0) {
        throw new PredictionError(`tensor shape [${shape.join(', ')}] has a dimension that is not a non-negative integer`, 400);
      }
    }
    if (data.length !== elementCount(shape)) {
      throw new PredictionError(
        `tensor of shape [${shape.join(', ')}] needs ${elementCount(shape)} elements, got ${data.length}`,
        400,
      );
    }
    this.datatype = datatype;
    this.shape = shape;
    this.data = data;
  }

  get [brand](): true {
    return true;
  }

  /** True for the tensors of any copy of this package: a bundled handler carries its own. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }

  /** Rows along the leading axis; 1 for a scalar. */
  get rows(): number {
    return this.shape[0] ?? 1;
  }

  /** Same data under another shape of as many elements. */
  reshape(shape: readonly number[]): Tensor<D> {
    return new Tensor(this.datatype, shape, this.data);
  }

  /** Bytes held by fixed-size elements; for BYTES the sum of the elements' UTF-8 lengths. */
  get byteLength(): number {
    const size = elementSize(this.datatype);
    if (size !== undefined) return size * this.data.length;
    let sum = 0;
    for (const element of this.data as DataOf['BYTES']) {
      sum += typeof element === 'string' ? Buffer.byteLength(element) : element.byteLength;
    }
    return sum;
  }
}

/** Tensors by input or output name. */
export type NamedTensors = Record<string, Tensor>;

/** A tensor of any fixed-size datatype filled with zeros. */
export function zeros<D extends Exclude<Datatype, 'BYTES'>>(datatype: D, shape: readonly number[]): Tensor<D> {
  const data = new typedArrayOf[datatype](elementCount(shape));
  return new Tensor(datatype, shape, data);
}
