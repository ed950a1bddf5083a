import type { SessionHandle, TensorSignature } from '../context.js';
import type { NamedTensors } from '../tensor.js';
import { checkFeeds } from '../onnx/check-feeds.js';

/** A session without a model: `run` computes the outputs. Feeds are checked against `inputs` as the server does. */
export function fakeSession(options: {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly run: (feeds: NamedTensors) => NamedTensors | Promise<NamedTensors>;
}): SessionHandle {
  const { inputs, outputs } = options;
  return {
    inputs,
    outputs,
    providers: ['cpu'],
    async run(feeds, wanted) {
      checkFeeds(feeds, inputs);
      const all = await options.run(feeds);
      return wanted === undefined ? all : Object.fromEntries(wanted.map((name) => [name, found(all, name)]));
    },
  };
}

function found(outputs: NamedTensors, name: string): NamedTensors[string] {
  const tensor = outputs[name];
  if (!tensor) throw new Error(`the fake session has no output "${name}"`);
  return tensor;
}
