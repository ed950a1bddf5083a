import type { BatchContext, TensorSignature } from '@onnxserve/handler-kit';
import type { SequenceStates } from '@onnxserve/handler-kit/internal';
import type { Envelope } from '../domain/envelope.js';
import type { WireItem } from '../ipc/messages.js';
import type { Answers } from './answers.js';
import { EnvelopeOpener } from './envelope-opener.js';
import { Item } from './item.js';

export interface IntakeOptions {
  readonly context: BatchContext<unknown>;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** What bodies are taken out of unless their path says otherwise. */
  readonly envelope: Envelope | undefined;
  /** What the model takes, when the handler leaves preprocess to the default. */
  readonly inputs: readonly TensorSignature[] | undefined;
  readonly sequences?: SequenceStates | undefined;
}

/** Makes items of what the front sends. */
export class Intake {
  readonly #options: IntakeOptions;
  readonly #answers: Answers;
  readonly #opener: EnvelopeOpener;

  constructor(options: IntakeOptions, answers: Answers) {
    this.#options = options;
    this.#answers = answers;
    this.#opener = new EnvelopeOpener(options, {
      answer: (whole, answer) => answers.send(whole, answer),
      fail: (whole, error) => answers.refuse(whole, error),
    });
  }

  /** What the handler is given; requests that cannot be opened are answered already. */
  take(batch: number, wires: readonly WireItem[], blob: Buffer): Item[] {
    let at = 0;
    const items: Item[] = [];
    for (const wire of wires) {
      const body = blob.subarray(at, at + wire.length);
      at += wire.length;
      const item = new Item(wire, batch, body, this.#options.context, this.#options.maxRequestSize);
      this.#answers.add(item);
      const envelope = wire.envelope ?? this.#options.envelope;
      if (envelope === undefined || envelope === 'none' || wire.kind === 'describe') items.push(item);
      else items.push(...this.#open(item, body, envelope));
    }
    const { sequences } = this.#options;
    if (sequences !== undefined) for (const item of items) place(item, sequences);
    return items;
  }

  #open(whole: Item, body: Uint8Array, envelope: Envelope): readonly Item[] {
    whole.lap('queue');
    if (this.#answers.dropped(whole)) return [];
    try {
      const items = this.#opener.open(whole, body, envelope);
      for (const item of items) this.#answers.add(item);
      return items;
    } catch (error) {
      this.#answers.fail(whole, error, 'preprocess');
      return [];
    }
  }
}

function place(item: Item, sequences: SequenceStates): void {
  const { sequence } = item.wire;
  if (sequence !== undefined) item.ctx.place = sequences.handle(sequence.number, sequence);
}
