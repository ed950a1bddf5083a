import type { BatchContext, TensorSignature } from '@onnxserve/handler-kit';
import type { Envelope } from '../domain/envelope.js';
import { unwrap } from './envelopes.js';
import { Item } from './item.js';
import { Joined, type JoinedOutcome } from './joined.js';

export interface OpenerOptions {
  readonly context: BatchContext<unknown>;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** What the model takes, when the handler leaves preprocess to the default. */
  readonly inputs: readonly TensorSignature[] | undefined;
}

/** Makes of a request in an envelope the items that the handler is given. */
export class EnvelopeOpener {
  readonly #options: OpenerOptions;
  readonly #outcome: JoinedOutcome;
  /** Parts have numbers of their own, below those of the front. */
  #nextPart = -1;

  constructor(options: OpenerOptions, outcome: JoinedOutcome) {
    this.#options = options;
    this.#outcome = outcome;
  }

  /** @throws {PredictionError} 4xx naming what is wrong with the body */
  open(whole: Item, body: Uint8Array, envelope: Envelope): readonly Item[] {
    const { wire, batch } = whole;
    const { context, maxRequestSize, inputs } = this.#options;
    const { name, version } = context.model;
    const opened = unwrap(envelope, whole.request, { name, version, inputs });
    whole.lap('preprocess');
    if (opened.kind === 'plain') return [new Item(wire, batch, body, context, maxRequestSize, opened.part).after(whole)];
    const joined = new Joined(whole, opened.join, this.#outcome);
    joined.parts = opened.parts.map((part, index) => {
      const item = new Item({ ...wire, job: this.#nextPart-- }, batch, body, context, maxRequestSize, part).after(whole);
      item.joined = joined;
      item.index = index;
      return item;
    });
    whole.onCancel = () => joined.cancel();
    return joined.parts;
  }
}
