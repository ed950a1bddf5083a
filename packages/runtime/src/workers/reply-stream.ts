import { toServeError } from '../domain/errors.js';

type Event = { readonly chunk: Buffer } | { readonly end: true } | { readonly error: Error };

/** The chunks of one streamed answer, between the frames that bring them and the socket that takes them. */
export class ReplyStream implements AsyncIterable<Buffer> {
  readonly #taken: (bytes: number) => void;
  readonly #left: () => void;
  #events: Event[] = [];
  #wake: ((step: IteratorResult<Buffer, undefined> | Promise<IteratorResult<Buffer, undefined>>) => void) | undefined;
  /** Bytes that the consumer has got and does not ask after yet. */
  #given = 0;
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

  /** One consumer. Its `return` takes effect at once, also while `next` waits and before the first `next`. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined> {
    return {
      next: () => {
        this.#acknowledge();
        return this.#next();
      },
      return: () => {
        if (this.#open) {
          this.#close();
          this.#left();
        }
        this.#wake?.({ done: true, value: undefined });
        this.#wake = undefined;
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #next(): Promise<IteratorResult<Buffer, undefined>> {
    if (!this.#open) return Promise.resolve({ done: true, value: undefined });
    const event = this.#events.shift();
    if (event !== undefined) return this.#give(event);
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #give(event: Event): Promise<IteratorResult<Buffer, undefined>> {
    if ('chunk' in event) {
      this.#given = event.chunk.length;
      return Promise.resolve({ done: false, value: event.chunk });
    }
    this.#close();
    if ('error' in event) return Promise.reject(toServeError(event.error));
    return Promise.resolve({ done: true, value: undefined });
  }

  #acknowledge(): void {
    if (this.#given > 0) this.#taken(this.#given);
    this.#given = 0;
  }

  #close(): void {
    this.#open = false;
    this.#events = [];
  }

  #add(event: Event): void {
    if (!this.#open) return;
    const wake = this.#wake;
    this.#wake = undefined;
    if (wake === undefined) this.#events.push(event);
    else wake(this.#give(event));
  }
}
