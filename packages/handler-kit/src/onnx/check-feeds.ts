import type { TensorSignature } from '../context.js';
import type { BytesElement } from '../datatype.js';
import { PredictionError } from '../errors.js';
import type { NamedTensors } from '../tensor.js';

/**
 * Checks feeds against the model's inputs, since the engine ignores unknown names and reports the rest without telling whose fault it is.
 * @throws {PredictionError} 400 naming the input, what came and what the model wants
 */
export function checkFeeds(feeds: NamedTensors, inputs: readonly TensorSignature[]): void {
  for (const name in feeds) {
    if (!inputs.some((input) => input.name === name)) {
      throw new PredictionError(
        `the model has no input "${name}"; its inputs are ${inputs.map((input) => `"${input.name}"`).join(', ')}.`,
        400,
      );
    }
  }
  for (const input of inputs) {
    const tensor = feeds[input.name];
    const wanted = `${input.datatype} [${input.shape.join(', ')}]`;
    if (tensor === undefined) throw new PredictionError(`input "${input.name}" (${wanted}) is missing`, 400);
    const got = `${tensor.datatype} [${tensor.shape.join(', ')}]`;
    if (tensor.datatype !== input.datatype) throw new PredictionError(`input "${input.name}" expects ${wanted}, got ${got}`, 400);
    if (tensor.shape.length !== input.shape.length) {
      throw new PredictionError(`input "${input.name}" expects ${wanted}, got ${got}: the number of dimensions differs.`, 400);
    }
    if (tensor.datatype === 'BYTES') refuseNul(input.name, tensor.data as readonly BytesElement[]);
    input.shape.forEach((dimension, axis) => {
      if (typeof dimension === 'number' && dimension >= 0 && dimension !== tensor.shape[axis]) {
        throw new PredictionError(`input "${input.name}" expects ${wanted}, got ${got}: dimension ${axis} differs.`, 400);
      }
    });
  }
}

/** The engine ends a text at its first NUL, so what follows would be lost without a word. */
function refuseNul(name: string, elements: readonly BytesElement[]): void {
  const at = elements.findIndex((element) => (typeof element === 'string' ? element.includes('\0') : element.includes(0)));
  if (at >= 0)
    throw new PredictionError(
      `element ${at} of input "${name}" has a NUL character (\\u0000), which the model cannot take.`,
      400,
    );
}
