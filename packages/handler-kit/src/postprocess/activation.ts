import type { Tensor } from '../tensor.js';
import { mapRows, type Scores } from './scores.js';

/** Softmax over the last axis; same shape, FP32. Large logits do not overflow. */
export function softmax(logits: Tensor | undefined): Tensor<'FP32'>;
export function softmax(logits: Float32Array | readonly number[]): Float32Array;
export function softmax(logits: Scores | undefined): Tensor<'FP32'> | Float32Array {
  return mapRows(logits, (from, to, start, end) => {
    let peak = -Infinity;
    for (let at = start; at < end; at++) if (from[at]! > peak) peak = from[at]!;
    let sum = 0;
    for (let at = start; at < end; at++) sum += to[at] = Math.exp(from[at]! - peak);
    for (let at = start; at < end; at++) to[at]! /= sum;
  });
}

/** `1 / (1 + exp(-x))` of each element; same shape, FP32. */
export function sigmoid(logits: Tensor | undefined): Tensor<'FP32'>;
export function sigmoid(logits: Float32Array | readonly number[]): Float32Array;
export function sigmoid(logits: Scores | undefined): Tensor<'FP32'> | Float32Array {
  return mapRows(logits, (from, to, start, end) => {
    for (let at = start; at < end; at++) to[at] = 1 / (1 + Math.exp(-from[at]!));
  });
}

/** Scales each run of the last axis to length 1; one of zeros stays zeros. Same shape, FP32. */
export function l2normalize(vectors: Tensor | undefined): Tensor<'FP32'>;
export function l2normalize(vectors: Float32Array | readonly number[]): Float32Array;
export function l2normalize(vectors: Scores | undefined): Tensor<'FP32'> | Float32Array {
  return mapRows(vectors, (from, to, start, end) => {
    let squares = 0;
    for (let at = start; at < end; at++) squares += from[at]! ** 2;
    const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares);
    for (let at = start; at < end; at++) to[at] = from[at]! * scale;
  });
}
