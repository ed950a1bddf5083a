import { type NamedTensors, type PadValues, shapeKey, type Tensor, type TensorSignature } from '@onnxserve/handler-kit';
import { cutTo, paddedShapes, padTo } from '@onnxserve/handler-kit/internal';
import type { Session } from './engines/session.js';

const open = (dimension: number | string | undefined) => typeof dimension === 'string' || dimension === -1;

/** What the model calls the axes of its inputs and outputs, and which of them a handler lets us fill up. */
export class Ragged {
  readonly #pad: PadValues;
  readonly #inputs: ReadonlyMap<string, TensorSignature>;
  readonly #outputs: ReadonlyMap<string, TensorSignature>;

  /** @throws {Error} when `pad` names no input of the model, or one that cannot be padded */
  constructor(session: Session, pad: PadValues, model: string) {
    this.#inputs = new Map(session.inputs.map((input) => [input.name, input]));
    this.#outputs = new Map(session.outputs.map((output) => [output.name, output]));
    // A tokenizer may offer more than this model takes.
    this.#pad = Object.fromEntries(Object.entries(pad).filter(([name]) => this.#inputs.has(name)));
    const names = Object.keys(this.#pad);
    if (names.length === 0) {
      throw new Error(
        `pad of model "${model}" names ${Object.keys(pad).join(', ') || 'nothing'}; the model's inputs are ${[...this.#inputs.keys()].join(', ')}`,
      );
    }
    const bytes = names.find((name) => this.#inputs.get(name)?.datatype === 'BYTES');
    if (bytes !== undefined) throw new Error(`pad of model "${model}" names the input "${bytes}", but BYTES cannot be padded`);
  }

  /** @returns the key of an item's shape group, in which open axes of padded inputs may differ, and the size of its rows */
  describe(features: NamedTensors): { key: string; size: number } {
    let size = 0;
    let key = '';
    const others: NamedTensors = {};
    for (const name of Object.keys(features).sort()) {
      const tensor = features[name]!;
      if (!Object.hasOwn(this.#pad, name)) {
        others[name] = tensor;
        continue;
      }
      const { shape } = this.#inputs.get(name)!;
      let elements = 1;
      key += `${JSON.stringify(name)}:${tensor.datatype}`;
      for (let axis = 1; axis < tensor.shape.length; axis++) {
        elements *= tensor.shape[axis]!;
        key += open(shape[axis]) ? ',?' : `,${tensor.shape[axis]}`;
      }
      key += ';';
      size += elements;
    }
    return { key: key + shapeKey(others), size };
  }

  /** Fills the tensors of several items up to the same sizes. */
  fill(pieces: readonly NamedTensors[]): NamedTensors[] {
    const shapes = paddedShapes(pieces, this.#pad);
    return pieces.map((piece) => {
      const filled: NamedTensors = { ...piece };
      for (const name in shapes)
        filled[name] = padTo(piece[name]!, [piece[name]!.shape[0]!, ...shapes[name]!.slice(1)], this.#pad[name]!);
      return filled;
    });
  }

  /** Cuts what the model returned along a filled axis back to the item's own length. */
  cut(outputs: NamedTensors, own: NamedTensors, filled: NamedTensors): NamedTensors {
    const axes = new Map<string, { length: number; side: 'left' | 'right' }>();
    for (const name in this.#pad) {
      this.#inputs.get(name)?.shape.forEach((dimension, axis) => {
        const length = own[name]?.shape[axis];
        if (axis === 0 || typeof dimension !== 'string' || length === undefined || length === filled[name]?.shape[axis]) return;
        axes.set(dimension, { length, side: this.#pad[name]?.side ?? 'right' });
      });
    }
    if (axes.size === 0) return outputs;
    return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, this.#cutOne(name, tensor, axes)]));
  }

  #cutOne(name: string, tensor: Tensor, axes: ReadonlyMap<string, { length: number; side: 'left' | 'right' }>): Tensor {
    let result = tensor;
    this.#outputs.get(name)?.shape.forEach((dimension, axis) => {
      const cut = axis > 0 && typeof dimension === 'string' ? axes.get(dimension) : undefined;
      if (cut === undefined || result.shape[axis] === undefined || cut.length > result.shape[axis]) return;
      result = cutTo(
        result,
        result.shape.map((size, at) => (at === axis ? cut.length : size)),
        cut.side,
      );
    });
    return result;
  }
}
