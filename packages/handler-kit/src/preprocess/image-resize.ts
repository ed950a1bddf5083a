import type { Layout } from './image-layout.js';
import type { PixelSink } from './image-pixels.js';

/** What one axis of a resize reads and writes: the source samples that matter, and the places they go to. */
export interface Axis {
  /** The first source sample that is read, and how many are. */
  readonly from: number;
  readonly length: number;
  /** Where the first result goes, and how many results there are. */
  readonly to: number;
  readonly count: number;
  /** Each result reads `taps` samples from `starts[i]`, counted from `from`, weighted by `weights[i * taps + k]`. */
  readonly taps: number;
  readonly starts: Int32Array;
  /** In parts of a whole; those of one result add up to one. */
  readonly weights: Float64Array;
}

/** The axes of a resize with antialiasing triangles (PIL's bilinear), confined to what the result shows. */
export function axesOf(plan: Layout): { x: Axis; y: Axis } {
  const { originalWidth, originalHeight, left, top } = plan.geometry;
  return {
    x: axis(originalWidth, plan.scaled.width, plan.width, left),
    y: axis(originalHeight, plan.scaled.height, plan.height, top),
  };
}

function axis(size: number, scaled: number, room: number, offset: number): Axis {
  const to = Math.max(0, offset);
  const skipped = Math.max(0, -offset);
  const count = Math.min(scaled - skipped, room - to);
  const scale = size / scaled;
  const reach = Math.max(1, scale);
  const taps = Math.min(size, Math.ceil(reach * 2));
  const starts = new Int32Array(count);
  const weights = new Float64Array(count * taps);
  for (let at = 0; at < count; at++) {
    const centre = (skipped + at + 0.5) * scale;
    const start = Math.max(0, Math.floor(centre - reach + 0.5));
    const end = Math.min(size, start + taps, Math.floor(centre + reach + 0.5));
    // A window that would stick out at the end begins earlier, with weights of zero.
    starts[at] = Math.min(start, size - taps);
    let sum = 0;
    for (let sample = start; sample < end; sample++) {
      const weight = Math.max(0, 1 - Math.abs(sample + 0.5 - centre) / reach);
      weights[at * taps + sample - starts[at]!] = weight;
      sum += weight;
    }
    for (let k = 0; k < taps; k++) weights[at * taps + k]! /= sum;
  }
  const from = starts[0]!;
  for (let at = 0; at < count; at++) starts[at]! -= from;
  return { from, length: starts[count - 1]! + taps, to, count, taps, starts, weights };
}

const maxBytes = 1 << 21;
const maxRow = 1 << 15;
const maxWeights = 1 << 15;
// One set for all pictures in flight, since a resize is not interrupted. That they are constants more than halves the time: the
// compiler knows where they lie. Rows begin at whole words, so that four samples are read at once.
const rows = new Int32Array(maxBytes / 4);
const rowBytes = new Uint8Array(rows.buffer);
const blended = new Int32Array(maxRow / 2);
const samples = new Uint16Array(blended.buffer);
const columns = new Int32Array(maxRow / 3);
const weightsX = new Int32Array(maxWeights);
const weightsY = new Int32Array(maxWeights);
const tables = new Float32Array(3 * 256);
const oneX = 1 << 14;
const oneY = 1 << 8;
const half = 1 << 21;

/** Whether `resizeInto` takes it: it holds up the thread for about 2 ms per million samples, so that the large are for others. */
export function isSmall(x: Axis, y: Axis): boolean {
  return (
    (x.length * 3 + 3) * y.length <= maxBytes &&
    Math.max(x.length, x.count) * 3 + 3 <= maxRow &&
    Math.max(x.count * x.taps, y.count * y.taps) <= maxWeights
  );
}

/**
 * Resizes and normalises in one pass.
 * @param pixels red green blue of the `x.length` by `y.length` samples that the axes read, which are few by `isSmall`
 */
export function resizeInto(sink: PixelSink, pixels: Uint8Array, x: Axis, y: Axis): void {
  const length = x.length * 3;
  const words = (length + 3) >> 2;
  if (length === words * 4) rowBytes.set(pixels.subarray(0, length * y.length));
  else for (let row = 0; row < y.length; row++) rowBytes.set(pixels.subarray(row * length, (row + 1) * length), row * words * 4);
  wholeWeights(x, oneX, weightsX);
  wholeWeights(y, oneY, weightsY);
  for (let at = 0; at < x.count; at++) columns[at] = x.starts[at]! * 3;
  for (const [channel, table] of sink.tables.entries()) tables.set(table, channel << 8);
  for (let row = 0; row < y.count; row++) {
    blendRows(words, y.starts[row]! * words, row * y.taps, y.taps);
    const first = (y.to + row) * sink.stepY + x.to * sink.stepX;
    for (let channel = 0; channel < 3; channel++)
      writeChannel(sink.tensor.data, first + sink.base[channel]!, sink.stepX, x, channel);
  }
}

/** Weights as whole numbers that add up to exactly `one`. */
function wholeWeights({ weights, taps, count }: Axis, one: number, whole: Int32Array): void {
  for (let at = 0; at < count; at++) {
    let rest = one;
    let largest = at * taps;
    for (let k = at * taps; k < (at + 1) * taps; k++) {
      const weight = Math.round(weights[k]! * one);
      whole[k] = weight;
      rest -= weight;
      if (weight > whole[largest]!) largest = k;
    }
    whole[largest]! += rest;
  }
}

/** Weighs rows into 16-bit lanes that hold 256 times the value; two samples share a multiplication. */
function blendRows(words: number, start: number, first: number, taps: number): void {
  const a = weightsY[first]!;
  const b = taps > 1 ? weightsY[first + 1]! : 0;
  const c = taps > 2 ? weightsY[first + 2]! : 0;
  const second = taps > 1 ? start + words : start;
  const third = taps > 2 ? second + words : start;
  // No lane overflows into the next, since the weights of a result add up to 256.
  for (let at = 0; at < words; at++) {
    const p = rows[start + at]!;
    const q = rows[second + at]!;
    const r = rows[third + at]!;
    const even = (Math.imul(p & 0xff00ff, a) + Math.imul(q & 0xff00ff, b) + Math.imul(r & 0xff00ff, c)) | 0;
    const odd =
      (Math.imul((p >>> 8) & 0xff00ff, a) + Math.imul((q >>> 8) & 0xff00ff, b) + Math.imul((r >>> 8) & 0xff00ff, c)) | 0;
    blended[at * 2] = (even & 0xffff) | (odd << 16);
    blended[at * 2 + 1] = (even >>> 16) | (odd & -0x10000);
  }
  for (let tap = 3; tap < taps; tap++) {
    const weight = weightsY[first + tap]!;
    if (weight === 0) continue;
    const from = start + words * tap;
    for (let at = 0; at < words; at++) {
      const p = rows[from + at]!;
      const even = Math.imul(p & 0xff00ff, weight);
      const odd = Math.imul((p >>> 8) & 0xff00ff, weight);
      blended[at * 2] = (blended[at * 2]! + ((even & 0xffff) | (odd << 16))) | 0;
      blended[at * 2 + 1] = (blended[at * 2 + 1]! + ((even >>> 16) | (odd & -0x10000))) | 0;
    }
  }
}

/** Weighs the samples of the blended row; one channel at a time, since stores to three planes at once get in each other's way. */
function writeChannel(data: Float32Array, start: number, step: number, { taps, count }: Axis, channel: number): void {
  const table = channel << 8;
  if (taps === 3) {
    // A moderate shrink, the most frequent case, written out.
    for (let at = 0, k = 0, to = start; at < count; at++, k += 3, to += step) {
      const from = columns[at]! + channel;
      const sum = samples[from]! * weightsX[k]! + samples[from + 3]! * weightsX[k + 1]! + samples[from + 6]! * weightsX[k + 2]!;
      data[to] = tables[table + ((sum + half) >>> 22)]!;
    }
    return;
  }
  for (let at = 0, k = 0, to = start; at < count; at++, to += step) {
    let from = columns[at]! + channel;
    let sum = half;
    for (const end = k + taps; k < end; k++, from += 3) sum += samples[from]! * weightsX[k]!;
    data[to] = tables[table + (sum >>> 22)]!;
  }
}
