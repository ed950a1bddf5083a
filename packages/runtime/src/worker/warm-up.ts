import { elementCount, type NamedTensors, type TensorSignature, Tensor, zeros } from '@onnxserve/handler-kit';
import type { Session } from './engines/session.js';

/** More than this is no warm-up any more, bytes. */
const LARGEST_INPUT = 64 * 1024 * 1024;

/**
 * Runs the model once on zeros, so that the first client does not pay for lazy allocation. Only where zeros are sure to be
 * valid: every dimension but the leading one fixed, and numbers as elements. A model that refuses them is left alone.
 */
export async function warmUp(session: Session): Promise<void> {
  if (session.inputs.length === 0) return;
  const feeds: NamedTensors = {};
  for (const input of session.inputs) {
    const shape = warmShape(input);
    if (shape === undefined || input.datatype === 'BYTES') return;
    feeds[input.name] = zeros(input.datatype, shape) as Tensor;
  }
  for (let turn = 0; turn < 2; turn++) await session.run(feeds).catch(() => undefined);
}

function warmShape(input: TensorSignature): number[] | undefined {
  const shape = input.shape.map((d, axis) => (typeof d === 'number' && d >= 0 ? d : axis === 0 ? 1 : -1));
  if (shape.some((d) => d < 0) || elementCount(shape) * 8 > LARGEST_INPUT) return undefined;
  return shape;
}
