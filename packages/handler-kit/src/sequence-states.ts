import type { BatchContext, SequenceContext } from './context.js';
import type { HandlerLife } from './handler.js';
import type { SequenceEndReason, SequenceHandle, SequencePlace } from './sequence.js';

interface Entry {
  readonly id: string;
  state: unknown;
  /** Resolves when `startSequence` has; undefined when it is over. */
  starting: Promise<void> | undefined;
}

/** The states of the sequences that a worker keeps, from `startSequence` to `endSequence`. */
export class SequenceStates {
  readonly #handler: HandlerLife<unknown, unknown>;
  readonly #context: BatchContext<unknown>;
  readonly #failed: (error: unknown) => void;
  readonly #entries = new Map<string | number, Entry>();
  readonly #ending = new Set<Promise<void>>();

  /** @param failed told what `endSequence` throws */
  constructor(handler: HandlerLife<unknown, unknown>, context: BatchContext<unknown>, failed: (error: unknown) => void) {
    this.#handler = handler;
    this.#context = context;
    this.#failed = failed;
  }

  /**
   * Begins a sequence with its first request.
   * @returns a promise when the request must wait for it
   * @throws what `startSequence` throws; the next request tries again
   */
  enter(key: string | number, { id }: SequencePlace): Promise<void> | undefined {
    const known = this.#entries.get(key);
    if (known !== undefined) return known.starting;
    const entry: Entry = { id, state: undefined, starting: undefined };
    const started: unknown = this.#handler.startSequence?.(this.#contextOf(id));
    if (started instanceof Promise) {
      entry.starting = started.then(
        (state: unknown) => {
          entry.state = state;
          entry.starting = undefined;
        },
        (error: unknown) => {
          if (this.#entries.get(key) === entry) this.#entries.delete(key);
          throw error;
        },
      );
    } else entry.state = started;
    this.#entries.set(key, entry);
    return entry.starting;
  }

  /** `ctx.sequence` of one request. */
  handle(key: string | number, { id, start, end }: SequencePlace): SequenceHandle<unknown> {
    const entries = this.#entries;
    return {
      id,
      start,
      end,
      get state() {
        return entries.get(key)?.state;
      },
      set state(state: unknown) {
        const entry = entries.get(key);
        if (entry !== undefined) entry.state = state;
      },
    };
  }

  /** Drops a sequence, if it was begun. Never rejects. */
  async end(key: string | number, reason: SequenceEndReason): Promise<void> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const ending = this.#end(entry, reason);
    this.#ending.add(ending);
    await ending;
    this.#ending.delete(ending);
  }

  async #end(entry: Entry, reason: SequenceEndReason): Promise<void> {
    try {
      await entry.starting;
      await this.#handler.endSequence?.(entry.state, reason, this.#contextOf(entry.id));
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Drops every sequence. Resolves when none is ending any more, those that ended before included. */
  async endAll(reason: SequenceEndReason): Promise<void> {
    for (const key of this.#entries.keys()) void this.end(key, reason);
    await Promise.all(this.#ending);
  }

  #contextOf(id: string): SequenceContext<unknown> {
    return { ...this.#context, sequence: { id } };
  }
}

/** What `ctx.sequence` is where there are none. */
export function noSequence(model: string): never {
  throw new Error(`ctx.sequence: model "${model}" has no sequences; set sequenceBatching: true in model-config.yaml`);
}
