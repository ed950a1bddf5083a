import { type BytesElement, type TypedData, typedArrayOf } from './datatype.js';
import { tensor } from './convert.js';
import { elementCount, type NamedTensors, Tensor } from './tensor.js';

/** How an input is filled up to the size of its neighbours in a run. */
export interface Pad {
  readonly value: number | bigint;
  /** Where the filling goes; default after the data. */
  readonly side?: 'left' | 'right';
}

/** By input name. */
export type PadValues = Readonly<Record<string, Pad>>;

/**
 * Fills a tensor up to a larger shape of as many dimensions.
 * @param shape each dimension at least that of the tensor; the leading one equal to it
 * @returns the tensor itself when nothing is missing
 */
export function padTo(source: Tensor, shape: readonly number[], { value, side = 'right' }: Pad): Tensor {
  const { datatype } = source;
  if (datatype === 'BYTES') throw new TypeError('tensors of BYTES cannot be padded');
  if (shape.every((size, axis) => size === source.shape[axis])) return source;
  const data = new typedArrayOf[datatype](elementCount(shape));
  if (Number(value) !== 0) data.fill(tensor(datatype, [1], [value]).data[0] as never);
  const offsets = shape.map((size, axis) => (side === 'left' ? size - source.shape[axis]! : 0));
  copyBlock(source.data as TypedData, source.shape, zerosOf(shape), data, shape, offsets, source.shape);
  return new Tensor(datatype, shape, data);
}

/**
 * Cuts a tensor down to a smaller shape of as many dimensions.
 * @param side where what is cut off lies
 * @returns the tensor itself when nothing is to go
 */
export function cutTo(source: Tensor, shape: readonly number[], side: 'left' | 'right' = 'right'): Tensor {
  if (shape.every((size, axis) => size === source.shape[axis])) return source;
  const offsets = shape.map((size, axis) => (side === 'left' ? source.shape[axis]! - size : 0));
  const { datatype } = source;
  const count = elementCount(shape);
  const data = datatype === 'BYTES' ? Array.from<BytesElement>({ length: count }) : new typedArrayOf[datatype](count);
  copyBlock(source.data as TypedData, source.shape, offsets, data as TypedData, shape, zerosOf(shape), shape);
  return new Tensor(datatype, shape, data);
}

/** Sizes that the open dimensions of padded inputs take when these tensors share a run. */
export function paddedShapes(items: readonly NamedTensors[], pad: PadValues): Record<string, number[]> {
  const shapes: Record<string, number[]> = {};
  for (const name in pad) {
    const first = items[0]?.[name];
    if (first === undefined) continue;
    shapes[name] = first.shape.map((_, axis) => (axis === 0 ? 0 : Math.max(...items.map((item) => item[name]!.shape[axis]!))));
  }
  return shapes;
}

function zerosOf(shape: readonly number[]): number[] {
  return shape.map(() => 0);
}

/** Copies a block of `size` between two arrays of the same number of dimensions, one run along the last axis at a time. */
function copyBlock(
  from: TypedData,
  fromShape: readonly number[],
  fromOffset: readonly number[],
  to: TypedData,
  toShape: readonly number[],
  toOffset: readonly number[],
  size: readonly number[],
): void {
  const last = size.length - 1;
  const width = size[last]!;
  const runs = elementCount(size.slice(0, last));
  if (width === 0) return;
  const at = zerosOf(size);
  for (let run = 0; run < runs; run++) {
    let source = 0;
    let target = 0;
    for (let axis = 0; axis <= last; axis++) {
      source = source * fromShape[axis]! + fromOffset[axis]! + at[axis]!;
      target = target * toShape[axis]! + toOffset[axis]! + at[axis]!;
    }
    if (Array.isArray(from)) for (let i = 0; i < width; i++) (to as unknown as unknown[])[target + i] = from[source + i];
    else to.set(from.subarray(source, source + width) as never, target);
    for (let axis = last - 1; axis >= 0 && ++at[axis]! >= size[axis]!; axis--) at[axis] = 0;
  }
}
