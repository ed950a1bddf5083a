import { PredictionError } from '@onnxserve/handler-kit';

/** Each instance becomes a request of its own in the worker, so a body of a few megabytes must not make millions of them. */
export const maxInstances = 10_000;

/**
 * The instances of a V1 body. KServe's clients call them `instances`, some `inputs`.
 * @param inputsToo whether `inputs` is taken as well
 * @throws {PredictionError} 400 naming what is missing or wrong, 413 for too many
 */
export function instancesOf(body: unknown, inputsToo: boolean): readonly unknown[] {
  const wanted = 'the body should be {"instances": [...]}';
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new PredictionError(`${wanted}, got ${Array.isArray(body) ? 'an array' : body === null ? 'null' : typeof body}`, 400);
  }
  const { instances, inputs } = body as { instances?: unknown; inputs?: unknown };
  const [name, given] =
    instances === undefined && inputsToo && inputs !== undefined ? ['inputs', inputs] : ['instances', instances];
  if (given === undefined) {
    const keys = Object.keys(body);
    const found =
      keys.length === 0
        ? 'an empty object'
        : `an object of ${keys
            .slice(0, 5)
            .map((key) => JSON.stringify(key.slice(0, 40)))
            .join(', ')}`;
    throw new PredictionError(`${wanted}, got ${found}`, 400);
  }
  if (!Array.isArray(given))
    throw new PredictionError(`"${name}" should be an array, got ${given === null ? 'null' : typeof given}`, 400);
  if (given.length === 0) throw new PredictionError(`"${name}" is empty, at least one is needed`, 400);
  if (given.length > maxInstances) {
    throw new PredictionError(
      `"${name}" has ${given.length} entries, the most in one request are ${maxInstances}; send several requests`,
      413,
    );
  }
  return given;
}

/** @param texts each prediction as JSON text, in the order of the instances */
export function predictionsText(key: 'predictions' | 'explanations', texts: readonly string[]): string {
  return `{"${key}":[${texts.join(',')}]}`;
}
