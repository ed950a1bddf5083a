/** Datatype names of the Open Inference Protocol v2. */
export type Datatype =
  | 'BOOL'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64'
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'FP16'
  | 'BF16'
  | 'FP32'
  | 'FP64'
  | 'BYTES';

/** One element of a BYTES tensor: text, or bytes where they need not be UTF-8. */
export type BytesElement = string | Uint8Array;

/**
 * The array that holds a datatype's elements. BOOL holds 0 and 1, FP16 and BF16 hold the raw 16 bits
 * (see `float16ToNumber`, `bfloat16ToNumber`), INT64 and UINT64 are exact BigInts.
 */
export interface DataOf {
  BOOL: Uint8Array;
  UINT8: Uint8Array;
  UINT16: Uint16Array;
  UINT32: Uint32Array;
  UINT64: BigUint64Array;
  INT8: Int8Array;
  INT16: Int16Array;
  INT32: Int32Array;
  INT64: BigInt64Array;
  FP16: Uint16Array;
  BF16: Uint16Array;
  FP32: Float32Array;
  FP64: Float64Array;
  BYTES: BytesElement[];
}

export type TypedData = DataOf[Exclude<Datatype, 'BYTES'>];
type TypedConstructor<T extends TypedData> = {
  new (length: number): T;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): T;
  BYTES_PER_ELEMENT: number;
};

/** Constructor of the typed array for each fixed-size datatype. */
export const typedArrayOf: { [D in Exclude<Datatype, 'BYTES'>]: TypedConstructor<DataOf[D]> } = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  BF16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
};

const all = new Set<string>([...Object.keys(typedArrayOf), 'BYTES']);

export function isDatatype(value: unknown): value is Datatype {
  return typeof value === 'string' && all.has(value);
}

/** Bytes per element; undefined for BYTES, whose elements vary. */
export function elementSize(datatype: Datatype): number | undefined {
  return datatype === 'BYTES' ? undefined : typedArrayOf[datatype].BYTES_PER_ELEMENT;
}
