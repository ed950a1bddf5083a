import { type BytesElement, type TypedData, typedArrayOf } from './datatype.js';
import { PredictionError } from './errors.js';
import { elementCount, type NamedTensors, Tensor } from './tensor.js';

/**
 * Joins requests into one batch along axis 0. A scalar (`[]`) has no batch axis: it stays one, and must be equal in all.
 * A single item comes back as it is, without a copy.
 * @throws {PredictionError} 400 naming the input when names, datatypes or trailing dimensions differ
 */
export function collate(items: readonly NamedTensors[]): NamedTensors {
  const [first, ...rest] = items;
  if (!first) throw new RangeError('collate needs at least one item');
  if (rest.length === 0) return first;
  const names = Object.keys(first);
  for (const item of rest) {
    for (const name of names) if (!Object.hasOwn(item, name)) throw missing(name);
    for (const name of Object.keys(item)) if (!Object.hasOwn(first, name)) throw missing(name);
  }
  return Object.fromEntries(
    names.map((name) => [
      name,
      concatenate(
        name,
        items.map((item) => item[name]!),
      ),
    ]),
  );
}

/**
 * Cuts a batch's outputs into each item's rows. Fixed-size datatypes come as views of the same memory.
 * Scalars go to every item; so does everything when there is one item.
 * @param rows leading dimension of each item, in order
 * @throws {Error} naming the output whose leading dimension is not the sum of `rows`
 */
export function split(outputs: NamedTensors, rows: readonly number[]): NamedTensors[] {
  if (rows.length === 1) return [outputs];
  const total = rows.reduce((sum, count) => sum + count, 0);
  const items: NamedTensors[] = rows.map(() => ({}));
  for (const [name, tensor] of Object.entries(outputs)) {
    if (tensor.shape.length > 0 && tensor.shape[0] !== total) {
      throw new Error(
        `output "${name}" has shape [${tensor.shape.join(', ')}], but the batch has ${total} rows: its first axis is not the batch axis, so requests cannot share a run (set batchSize: 1)`,
      );
    }
    const trailing = tensor.shape.slice(1);
    const width = elementCount(trailing);
    let row = 0;
    for (const [index, count] of rows.entries()) {
      items[index]![name] = tensor.shape.length === 0 ? tensor : sliceRows(tensor, row * width, [count, ...trailing]);
      row += count;
    }
  }
  return items;
}

/** Items with the same key can be collated: names, datatypes and trailing dimensions agree, and scalars are equal. */
export function shapeKey(features: NamedTensors): string {
  return Object.keys(features)
    .sort()
    .map((name) => {
      const { datatype, shape, data } = features[name]!;
      const kind = shape.length === 0 ? `=${String(data[0])}` : `[${['*', ...shape.slice(1)].join(',')}]`;
      return `${JSON.stringify(name)}:${datatype}${kind}`;
    })
    .join(';');
}

/**
 * The leading dimension that all tensors share, scalars aside; 1 when there are only scalars.
 * @throws {PredictionError} 400 naming the inputs that disagree
 */
export function rowsOf(features: NamedTensors): number {
  let found: { readonly name: string; readonly rows: number } | undefined;
  for (const [name, tensor] of Object.entries(features)) {
    const rows = tensor.shape[0];
    if (rows === undefined) continue;
    found ??= { name, rows };
    if (found.rows !== rows) {
      throw new PredictionError(
        `input "${found.name}" has ${found.rows} rows, input "${name}" has ${rows}; they must be equal`,
        400,
      );
    }
  }
  return found?.rows ?? 1;
}

function concatenate(name: string, tensors: readonly Tensor[]): Tensor {
  const first = tensors[0]!;
  const trailing = first.shape.slice(1);
  let rows = 0;
  for (const tensor of tensors) {
    if (tensor.datatype !== first.datatype) {
      throw new PredictionError(
        `input "${name}" is ${first.datatype} in one request of the batch and ${tensor.datatype} in another`,
        400,
      );
    }
    const fits = tensor.shape.length === first.shape.length && trailing.every((size, axis) => tensor.shape[axis + 1] === size);
    if (!fits) {
      throw new PredictionError(
        `input "${name}" has shape [${first.shape.join(', ')}] in one request of the batch and [${tensor.shape.join(', ')}] in another; only the first dimension may differ`,
        400,
      );
    }
    rows += tensor.shape[0] ?? 0;
  }
  if (first.shape.length === 0) {
    if (tensors.every((tensor) => String(tensor.data[0]) === String(first.data[0]))) return first;
    throw new PredictionError(`input "${name}" is a scalar that differs between the requests of a batch`, 400);
  }
  const shape = [rows, ...trailing];
  if (first.datatype === 'BYTES')
    return new Tensor(
      'BYTES',
      shape,
      tensors.flatMap((tensor) => tensor.data as BytesElement[]),
    );
  const data = new typedArrayOf[first.datatype](elementCount(shape));
  let at = 0;
  for (const tensor of tensors) {
    data.set(tensor.data as never, at);
    at += tensor.data.length;
  }
  return new Tensor(first.datatype, shape, data);
}

function sliceRows(tensor: Tensor, start: number, shape: readonly number[]): Tensor {
  const end = start + elementCount(shape);
  if (tensor.datatype === 'BYTES') return new Tensor('BYTES', shape, (tensor.data as BytesElement[]).slice(start, end));
  return new Tensor(tensor.datatype, shape, (tensor.data as TypedData).subarray(start, end));
}

function missing(name: string): PredictionError {
  return new PredictionError(`input "${name}" is in some requests of the batch and missing in others`, 400);
}
