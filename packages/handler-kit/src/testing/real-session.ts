import type * as Ort from 'onnxruntime-node';
import type { SessionHandle } from '../context.js';
import { checkFeeds } from '../onnx/check-feeds.js';
import { fromOrt, keepHalfFloatsAsBits, signatureOf, toOrt } from '../onnx/ort-tensors.js';
import { optionalPeer } from '../optional-peer.js';
import type { NamedTensors } from '../tensor.js';

/**
 * A model on the CPU in this process, through `onnxruntime-node`. `run` blocks the calling thread, as tests may.
 * @param file path of the `.onnx` file, or its bytes
 * @throws when `onnxruntime-node` is not installed or cannot read the model
 */
export async function realSession(file: string | Uint8Array): Promise<SessionHandle> {
  const ort = await optionalPeer<typeof Ort>('onnxruntime-node', () => import('onnxruntime-node'));
  keepHalfFloatsAsBits(ort);
  const session = typeof file === 'string' ? await ort.InferenceSession.create(file) : await ort.InferenceSession.create(file);
  const inputs = session.inputMetadata.map(signatureOf);
  return {
    inputs,
    outputs: session.outputMetadata.map(signatureOf),
    providers: ['cpu'],
    async run(feeds, wanted) {
      checkFeeds(feeds, inputs);
      const given = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, toOrt(ort, tensor)]));
      const results = wanted === undefined ? await session.run(given) : await session.run(given, [...wanted]);
      const named: NamedTensors = {};
      for (const [name, value] of Object.entries(results)) named[name] = fromOrt(value);
      return named;
    },
  };
}
