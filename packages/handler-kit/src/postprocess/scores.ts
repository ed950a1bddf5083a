import { toNumbers } from '../convert.js';
import { Tensor } from '../tensor.js';

/** Numbers of a model: a tensor of any numeric datatype, or one row of plain numbers. */
export type Scores = Tensor | Float32Array | readonly number[];

export interface Rows {
  readonly values: ArrayLike<number>;
  /** Product of all dimensions but the last; 1 for a plain row. */
  readonly rows: number;
  /** Last dimension. */
  readonly width: number;
}

/** @throws when an output is missing, which a wrong name in a handler gives */
export function present<T>(value: T | undefined, what = 'scores'): T {
  if (value === undefined) throw new Error(`${what} are undefined; check the name of the model's output`);
  return value;
}

export function toRows(scores: Scores | undefined): Rows {
  const given = present(scores);
  if (!(given instanceof Tensor)) return { values: given, rows: 1, width: given.length };
  const width = given.shape.at(-1) ?? 1;
  return { values: toNumbers(given), rows: width === 0 ? 0 : given.data.length / width, width };
}

/** Applies `row` to each run of the last axis; the result has the shape of what came. */
export function mapRows(
  scores: Scores | undefined,
  row: (from: ArrayLike<number>, to: Float32Array, start: number, end: number) => void,
) {
  const given = present(scores);
  const { values, rows, width } = toRows(given);
  const result = new Float32Array(values.length);
  for (let at = 0; at < rows; at++) row(values, result, at * width, (at + 1) * width);
  return given instanceof Tensor ? new Tensor('FP32', given.shape, result) : result;
}
