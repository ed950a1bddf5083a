import { toServeError } from '../domain/errors.js';

type Event = { readonly chunk: Buffer } | { readonly end: true } | { readonly error: Error };

/** The chunks of one streamed answer, between the frames that bring them and the socket that takes them. */
export class ReplyStream implements AsyncIterable<Buffer> {
  readonly #taken: (bytes: number) => void;
  readonly #left: () => void;
  #events: Event[] = [];
  #wake: (() => void) | undefined;
  #open = true;

  /**
   * @param taken told how many bytes the consumer took
   * @param left told when the consumer stops before the end
   */
  constructor(taken: (bytes: number) => void, left: () => void) {
    this.#taken = taken;
    this.#left = left;
  }

  push(chunk: Buffer): void {
    this.#add({ chunk });
  }

  end(): void {
    this.#add({ end: true });
  }

  fail(error: Error): void {
    this.#add({ error });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    let finished = false;
    try {
      for (;;) {
        const event = this.#events.shift();
        if (event === undefined) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          continue;
        }
        if ('end' in event) {
          finished = true;
          return;
        }
        if ('error' in event) {
          finished = true;
          throw toServeError(event.error);
        }
        yield event.chunk;
        this.#taken(event.chunk.length);
      }
    } finally {
      this.#open = false;
      this.#events = [];
      if (!finished) this.#left();
    }
  }

  #add(event: Event): void {
    if (!this.#open) return;
    this.#events.push(event);
    this.#wake?.();
    this.#wake = undefined;
  }
}
