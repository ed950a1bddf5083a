import type { StepItem } from '@onnxserve/handler-kit';
import { monotonicNow } from '../domain/request.js';
import type { ChunkQueue } from './chunk-queue.js';
import type { Item } from './item.js';
import type { StepView } from './step-policy.js';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** One request of a continuous batch. */
export class Running implements StepView {
  readonly item: Item;
  /** What the handler sees of it. */
  readonly view: Mutable<StepItem<unknown, unknown>>;
  /** Its streamed answer, from the first chunk on. */
  chunks: ChunkQueue | undefined;
  /** Chunks of a part of a larger request, which is answered whole. */
  #parts: Uint8Array[] | undefined;

  constructor(item: Item, job: unknown) {
    this.item = item;
    this.view = { request: item.request, ctx: item.ctx, job, steps: 0 };
  }

  /** A deadline holds until the answer begins. */
  get gone(): boolean {
    const { deadline } = this.item.wire;
    return this.item.cancelled || (this.chunks === undefined && deadline !== undefined && monotonicNow() > deadline);
  }

  get held(): boolean {
    return this.chunks !== undefined && this.chunks.pending > 0;
  }

  /** A chunk has gone out, or was collected. */
  get begun(): boolean {
    return this.chunks !== undefined || this.#parts !== undefined;
  }

  collect(chunk: Uint8Array): void {
    (this.#parts ??= []).push(chunk);
  }

  get collected(): Uint8Array | undefined {
    return this.#parts && Buffer.concat(this.#parts);
  }
}
