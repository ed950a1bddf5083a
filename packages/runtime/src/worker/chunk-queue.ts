type Event = { readonly chunk: Uint8Array } | { readonly error: unknown } | { readonly end: true };
type Step = IteratorResult<Uint8Array, undefined>;

/** The chunks of one streamed answer between the steps that make them and the outbox that sends them. One consumer. */
export class ChunkQueue implements AsyncIterable<Uint8Array> {
  readonly #drained: () => void;
  #events: Event[] = [];
  #wake: ((step: Step | Promise<Step>) => void) | undefined;
  #open = true;

  /** @param drained told when the last chunk was taken */
  constructor(drained: () => void) {
    this.#drained = drained;
  }

  /** Chunks that wait to be taken. */
  get pending(): number {
    return this.#events.length;
  }

  push(chunk: Uint8Array): void {
    this.#add({ chunk });
  }

  end(): void {
    this.#add({ end: true });
  }

  fail(error: unknown): void {
    this.#add({ error });
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return {
      next: () => {
        const event = this.#events.shift();
        if (event !== undefined) {
          if (this.#events.length === 0) this.#drained();
          return this.#give(event);
        }
        if (!this.#open) return Promise.resolve({ done: true, value: undefined });
        return new Promise((resolve) => {
          this.#wake = resolve;
        });
      },
      return: () => {
        this.#open = false;
        this.#events = [];
        this.#wake?.({ done: true, value: undefined });
        this.#wake = undefined;
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #give(event: Event): Promise<Step> {
    if ('chunk' in event) return Promise.resolve({ done: false, value: event.chunk });
    if ('end' in event) return Promise.resolve({ done: true, value: undefined });
    return Promise.reject(event.error);
  }

  #add(event: Event): void {
    if (!this.#open) return;
    if (!('chunk' in event)) this.#open = false;
    const wake = this.#wake;
    this.#wake = undefined;
    if (wake === undefined) this.#events.push(event);
    else wake(this.#give(event));
  }
}
