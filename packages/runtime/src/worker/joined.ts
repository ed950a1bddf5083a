import type { Header } from '@onnxserve/handler-kit/internal';
import type { WireError } from '../ipc/messages.js';
import type { Item } from './item.js';
import type { EncodedAnswer } from './outbox.js';
import type { PartResult } from './part-result.js';

export interface JoinedOutcome {
  readonly answer: (parent: Item, answer: EncodedAnswer) => void;
  readonly fail: (parent: Item, error: WireError) => void;
}

/** A request whose parts are items of their own: answered when all of them are, in their order; the first that fails is its answer. */
export class Joined {
  readonly parent: Item;
  readonly #join: (results: readonly PartResult[]) => string;
  readonly #outcome: JoinedOutcome;
  #parts: readonly Item[] = [];
  #results: PartResult[] = [];
  #left = 0;
  #over = false;

  constructor(parent: Item, join: (results: readonly PartResult[]) => string, outcome: JoinedOutcome) {
    this.parent = parent;
    this.#join = join;
    this.#outcome = outcome;
  }

  get parts(): readonly Item[] {
    return this.#parts;
  }

  set parts(parts: readonly Item[]) {
    this.#parts = parts;
    this.#left = parts.length;
  }

  cancel(): void {
    for (const part of this.#parts) part.cancel();
  }

  /** @throws when the results cannot be joined; the answer is still open then */
  done(part: Item, result: PartResult): void {
    if (this.#over) return;
    const { parent } = this;
    this.#results[part.index] = result;
    parent.batchSize = Math.max(parent.batchSize, part.batchSize);
    parent.metrics.push(...part.metrics);
    this.#left -= 1;
    if (this.#left > 0) return;
    this.#takeTimes(part);
    const body = Buffer.from(this.#join(this.#results));
    this.#over = true;
    this.#outcome.answer(parent, { status: statusOf(this.#results), headers: headersOf(this.#results), body });
  }

  fail(part: Item, error: WireError): void {
    if (this.#over) return;
    this.#over = true;
    for (const other of this.#parts) if (other !== part) other.cancel();
    this.parent.metrics.push(...part.metrics);
    this.#takeTimes(part);
    const message = this.#parts.length > 1 ? `instance ${part.index}: ${error.message}` : error.message;
    this.#outcome.fail(this.parent, { ...error, message });
  }

  /** The last part's way is the request's: whatever the others did happened meanwhile. */
  #takeTimes(part: Item): void {
    Object.assign(this.parent.stages, part.stages);
    this.parent.mark = part.mark;
  }
}

/** The worst that any part asked for. */
function statusOf(results: readonly PartResult[]): number {
  return results.reduce((worst, { status }) => Math.max(worst, status), 200);
}

/** Each name once; a later part's replaces an earlier one's. */
function headersOf(results: readonly PartResult[]): Header[] {
  const headers = new Map<string, Header>();
  for (const result of results) for (const header of result.headers) headers.set(header[0].toLowerCase(), header);
  headers.set('content-type', ['content-type', 'application/json']);
  return [...headers.values()];
}
