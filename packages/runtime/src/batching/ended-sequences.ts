/** Why a sequence ended that its client may not know of. */
export type EndedBy = 'idle' | 'timeout' | 'lost';

/** More are forgotten, the oldest first. */
const KEPT = 10_000;

/** Remembers sequences that ended without their clients, so that a late member is told instead of starting from nothing. */
export class EndedSequences {
  readonly #ended = new Map<string, EndedBy>();

  add(id: string, by: EndedBy): void {
    this.#ended.delete(id);
    this.#ended.set(id, by);
    if (this.#ended.size <= KEPT) return;
    for (const oldest of this.#ended.keys()) {
      this.#ended.delete(oldest);
      return;
    }
  }

  get(id: string): EndedBy | undefined {
    return this.#ended.get(id);
  }

  forget(id: string): void {
    this.#ended.delete(id);
  }
}
