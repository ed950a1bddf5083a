import type { TensorSignature } from '../context.js';
import { PredictionError } from '../errors.js';
import type { NamedTensors } from '../tensor.js';

/**
 * What the server checks before it runs a model.
 * @throws {PredictionError} 400 naming the input, what came and what the model wants
 */
export function checkFeeds(feeds: NamedTensors, inputs: readonly TensorSignature[]): void {
  for (const name of Object.keys(feeds)) {
    if (!inputs.some((input) => input.name === name)) {
      throw new PredictionError(
        `the model has no input "${name}"; its inputs are ${inputs.map((it) => `"${it.name}"`).join(', ')}`,
        400,
      );
    }
  }
  for (const { name, datatype, shape } of inputs) {
    const wanted = `${datatype} [${shape.join(', ')}]`;
    const tensor = feeds[name];
    if (!tensor) throw new PredictionError(`input "${name}" (${wanted}) is missing`, 400);
    const fits =
      tensor.datatype === datatype &&
      tensor.shape.length === shape.length &&
      shape.every((size, axis) => typeof size === 'string' || size < 0 || size === tensor.shape[axis]);
    if (!fits) {
      throw new PredictionError(`input "${name}" expects ${wanted}, got ${tensor.datatype} [${tensor.shape.join(', ')}]`, 400);
    }
  }
}
