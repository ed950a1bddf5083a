import { type DataOf, type Datatype, type TypedData, typedArrayOf } from './datatype.js';
import { PredictionError } from './errors.js';
import { bfloat16ToFloat32, float16ToFloat32, numberToBfloat16, numberToFloat16 } from './float16.js';
import { elementCount, Tensor } from './tensor.js';

type Scalar = number | bigint | boolean | string | Uint8Array | null;
/** Elements of a tensor: flat in row-major order, or nested as deep as the shape is. */
export type TensorValues = ArrayLike<unknown> | Scalar;
export type NestedArray<T> = T | Array<NestedArray<T>>;

const integerRange: Partial<Record<Datatype, readonly [min: bigint, max: bigint]>> = {
  UINT8: [0n, 255n],
  UINT16: [0n, 65_535n],
  UINT32: [0n, 4_294_967_295n],
  UINT64: [0n, 18_446_744_073_709_551_615n],
  INT8: [-128n, 127n],
  INT16: [-32_768n, 32_767n],
  INT32: [-2_147_483_648n, 2_147_483_647n],
  INT64: [-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n],
};
const floatMax: Partial<Record<Datatype, number>> = { FP16: 65_504, BF16: 3.3895313892515355e38, FP32: 3.4028234663852886e38 };

/**
 * A tensor from JavaScript values, each checked. Integer datatypes take whole numbers (up to 2^53 - 1 as numbers, beyond
 * as BigInt) in range, FP16, BF16, FP32 and FP64 take numbers and round to the nearest, BOOL takes true, false, 0 and 1,
 * BYTES takes text and bytes. A typed array that already holds the datatype's elements is taken as it is, without a copy.
 *
 * @param shape dimensions; nested `values` must have exactly this shape
 * @throws {PredictionError} 400 naming the element, what it is and what is wanted
 */
export function tensor<D extends Datatype>(datatype: D, shape: readonly number[], values: TensorValues): Tensor<D> {
  if (isData(datatype, values)) return new Tensor(datatype, shape, values);
  const flat = flatten(shape, values);
  if (flat.length !== elementCount(shape)) return new Tensor(datatype, shape, flat as never);
  const name: Datatype = datatype;
  const data = name === 'BYTES' ? [] : new typedArrayOf[name](flat.length);
  for (let at = 0; at < flat.length; at++) {
    (data as unknown[])[at] = element(datatype, flat[at], at, shape);
  }
  return new Tensor(datatype, shape, data as DataOf[D]);
}

/** A tensor's elements nested like its shape: BOOL as booleans, FP16 and BF16 as numbers, INT64 and UINT64 as BigInt. */
export function toArray(tensor: Tensor): NestedArray<number | bigint | boolean | string | Uint8Array> {
  const flat = elementsOf(tensor);
  let at = 0;
  const nest = (axis: number): NestedArray<number | bigint | boolean | string | Uint8Array> => {
    if (axis === tensor.shape.length) return flat[at++]!;
    return Array.from({ length: tensor.shape[axis]! }, () => nest(axis + 1));
  };
  return nest(0);
}

/** The shape of nested arrays, judged by their first elements; `[]` for anything else. */
export function shapeOfNested(values: unknown): number[] {
  const shape: number[] = [];
  for (let level = values; Array.isArray(level); level = level[0] as unknown) shape.push(level.length);
  return shape;
}

/** The elements as floats: exact for every datatype but INT64, UINT64 (nearest) and FP64 (kept). */
export function toNumbers(tensor: Tensor): Float32Array | Float64Array | Exclude<TypedData, BigInt64Array | BigUint64Array> {
  const { datatype, data } = tensor;
  if (datatype === 'FP16') return float16ToFloat32(data as Uint16Array);
  if (datatype === 'BF16') return bfloat16ToFloat32(data as Uint16Array);
  if (datatype === 'INT64' || datatype === 'UINT64') return Float64Array.from(data as BigInt64Array, Number);
  if (datatype === 'BYTES') throw new PredictionError('a BYTES tensor holds no numbers', 400);
  return data as Float32Array;
}

function elementsOf(tensor: Tensor): ArrayLike<number | bigint | boolean | string | Uint8Array> {
  const { datatype, data } = tensor;
  if (datatype === 'BOOL') return Array.from(data as Uint8Array, (value) => value !== 0);
  return datatype === 'FP16' || datatype === 'BF16' ? toNumbers(tensor) : data;
}

function isData<D extends Datatype>(datatype: D, values: TensorValues): values is DataOf[D] & TensorValues {
  // BOOL, FP16 and BF16 share their arrays with other datatypes, so numbers could be meant.
  if (datatype === 'BYTES' || datatype === 'BOOL' || datatype === 'FP16' || datatype === 'BF16') return false;
  return values instanceof (typedArrayOf[datatype as Exclude<Datatype, 'BYTES'>] as unknown as new () => TypedData);
}

function flatten(shape: readonly number[], values: TensorValues): ArrayLike<unknown> {
  if (!isList(values)) {
    if (shape.length === 0) return [values];
    throw new PredictionError(`a tensor of shape [${shape.join(', ')}] needs an array of values, got ${show(values)}`, 400);
  }
  if (!Array.isArray(values) || !values.some(isList)) return values;
  const flat: unknown[] = [];
  const walk = (level: unknown, axis: number, path: string): void => {
    if (axis === shape.length) {
      flat.push(level);
      return;
    }
    const length = isList(level) ? level.length : undefined;
    if (length !== shape[axis]) {
      const found = length === undefined ? show(level) : `${length} values`;
      throw new PredictionError(
        `values${path} should have ${shape[axis]} values for shape [${shape.join(', ')}], got ${found}`,
        400,
      );
    }
    for (let at = 0; at < (length ?? 0); at++) walk((level as ArrayLike<unknown>)[at], axis + 1, `${path}[${at}]`);
  };
  walk(values, 0, '');
  return flat;
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

function element(datatype: Datatype, value: unknown, at: number, shape: readonly number[]): unknown {
  const refuse = (wanted: string): never => {
    throw new PredictionError(`element ${position(at, shape)} is ${show(value)}, ${datatype} needs ${wanted}`, 400);
  };
  const range = integerRange[datatype];
  if (range) {
    const big = datatype === 'INT64' || datatype === 'UINT64';
    if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isInteger(value))) return refuse('a whole number');
    if (typeof value === 'number' && !Number.isSafeInteger(value)) {
      return refuse(big ? 'a number that is exact (at most 2^53 - 1) or a BigInt' : `${range[0]} to ${range[1]}`);
    }
    if (value < range[0] || value > range[1]) return refuse(`${range[0]} to ${range[1]}`);
    return big ? BigInt(value) : Number(value);
  }
  if (datatype === 'BOOL')
    return value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : refuse('true, false, 0 or 1');
  if (datatype === 'BYTES') {
    if (typeof value === 'string' && !wellFormed(value)) return refuse('text without lone surrogates, which UTF-8 cannot hold');
    return typeof value === 'string' || value instanceof Uint8Array ? value : refuse('text or bytes');
  }
  if (typeof value !== 'number' && typeof value !== 'bigint') return refuse('a number');
  const number = Number(value);
  const max = floatMax[datatype];
  const bits =
    datatype === 'FP16' ? numberToFloat16(number) : datatype === 'BF16' ? numberToBfloat16(number) : Math.fround(number);
  const overflows =
    datatype === 'FP32'
      ? !Number.isFinite(bits)
      : max !== undefined && (bits & 0x7fff) === (datatype === 'FP16' ? 0x7c00 : 0x7f80);
  if (Number.isFinite(number) && overflows) return refuse(`a number of at most ${max} in size`);
  return datatype === 'FP64' ? number : datatype === 'FP32' ? number : bits;
}

function wellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

function position(at: number, shape: readonly number[]): string {
  if (shape.length < 2) return `${at}`;
  const path: number[] = [];
  let rest = at;
  for (const size of shape.toReversed()) {
    path.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return `${at} (${path.map((index) => `[${index}]`).join('')})`;
}

function show(value: unknown): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
  if (typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return 'an array';
  return value === null
    ? 'null'
    : value === undefined
      ? 'missing'
      : value instanceof Uint8Array
        ? 'bytes'
        : `of type ${typeof value}`;
}
