/** A binary floating-point format: bits of its fraction, and the exponent of its smallest normal number. */
interface Format {
  readonly fraction: number;
  readonly minExponent: number;
  readonly infinity: number;
}
const half: Format = { fraction: 10, minExponent: -14, infinity: 0x7c00 };
const brain: Format = { fraction: 7, minExponent: -126, infinity: 0x7f80 };

const scratch = new DataView(new ArrayBuffer(8));

/** Nearest FP16 bits, ties to even; too large becomes infinity, NaN the quiet NaN 0x7e00. */
export function numberToFloat16(value: number): number {
  return encode(value, half);
}

/** Nearest BF16 bits, ties to even, straight from the 64-bit number. */
export function numberToBfloat16(value: number): number {
  return encode(value, brain);
}

/** Exact value of FP16 bits. */
export function float16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** Exact value of BF16 bits. */
export function bfloat16ToNumber(bits: number): number {
  scratch.setUint32(0, (bits & 0xffff) << 16);
  return scratch.getFloat32(0);
}

let halfTable: Float32Array | undefined;

/** FP16 bits as 32-bit floats; exact. */
export function float16ToFloat32(bits: Uint16Array): Float32Array {
  halfTable ??= Float32Array.from({ length: 65536 }, (_, index) => float16ToNumber(index));
  const values = new Float32Array(bits.length);
  for (let at = 0; at < bits.length; at++) values[at] = halfTable[bits[at]!]!;
  return values;
}

/** BF16 bits as 32-bit floats; exact. */
export function bfloat16ToFloat32(bits: Uint16Array): Float32Array {
  const words = new Uint32Array(bits.length);
  for (let at = 0; at < bits.length; at++) words[at] = bits[at]! << 16;
  return new Float32Array(words.buffer);
}

export function toFloat16(values: ArrayLike<number>): Uint16Array {
  return convert(values, numberToFloat16);
}

export function toBfloat16(values: ArrayLike<number>): Uint16Array {
  return convert(values, numberToBfloat16);
}

function convert(values: ArrayLike<number>, one: (value: number) => number): Uint16Array {
  const bits = new Uint16Array(values.length);
  for (let at = 0; at < values.length; at++) bits[at] = one(values[at]!);
  return bits;
}

function encode(value: number, { fraction, minExponent, infinity }: Format): number {
  if (Number.isNaN(value)) return infinity | (1 << (fraction - 1));
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size === Infinity) return sign | infinity;
  scratch.setFloat64(0, size);
  const exponent = Math.max((scratch.getUint32(0) >>> 20) - 1023, minExponent);
  if (exponent > -minExponent + 1) return sign | infinity;
  // Units of the last place; scaling by a power of two is exact. A carry out of the fraction raises the exponent by itself.
  const units = roundHalfEven(size * 2 ** (fraction - exponent));
  const bits = units + (exponent - minExponent) * 2 ** fraction;
  return sign | Math.min(bits, infinity);
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
