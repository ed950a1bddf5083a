import type { AnyHandler, BatchContext, HandlerResult } from '@onnxserve/handler-kit';
import { encodeResult } from '@onnxserve/handler-kit/internal';
import { monotonicNow } from '../domain/request.js';
import type { Connection } from '../ipc/connection.js';
import type { FromWorker, WireError } from '../ipc/messages.js';
import { type Stage, stackOf, tooLarge, toWireError, unwanted } from './errors.js';
import type { Item } from './item.js';
import { type EncodedAnswer, Outbox } from './outbox.js';
import { type PartResult, partResult } from './part-result.js';
import { isThenable } from './stages.js';
import type { StageWatch } from './stage-watch.js';

export interface AnswersOptions {
  readonly model: string;
  /** Bytes. */
  readonly maxResponseSize: number;
  readonly context: BatchContext<unknown>;
  readonly connection: Connection;
}

/** The items of a worker that are not answered yet, and the ways to answer them. */
export class Answers {
  readonly outbox: Outbox;
  readonly #options: AnswersOptions;
  readonly #watch: StageWatch;
  readonly #items = new Map<number, Item>();

  /** @param watch told of answers that the handler still works on */
  constructor(options: AnswersOptions, watch: StageWatch) {
    this.#options = options;
    this.#watch = watch;
    this.outbox = new Outbox(options.connection);
  }

  get empty(): boolean {
    return this.#items.size === 0;
  }

  add(item: Item): void {
    this.#items.set(item.wire.job, item);
  }

  get(job: number): Item | undefined {
    return this.#items.get(job);
  }

  /** Not answered yet. */
  live(item: Item): boolean {
    return this.#items.has(item.wire.job);
  }

  answer(item: Item, result: HandlerResult | undefined): void {
    if (this.dropped(item)) return;
    try {
      if (item.joined === undefined) return this.send(item, encodeResult(result, item.ctx.response.set));
      const part = partResult(result, item.ctx.response.set, this.#options.maxResponseSize);
      if (isThenable(part)) return this.#collect(item, part);
      item.joined.done(item, part);
      this.forget(item);
    } catch (error) {
      this.fail(item, error, 'encode');
    }
  }

  /** A part that is streamed is awaited to its end. */
  #collect(item: Item, result: Promise<PartResult>): void {
    this.#watch.enter(item);
    result
      .then((part) => {
        item.lap('postprocess');
        if (this.dropped(item)) return;
        item.joined!.done(item, part);
        this.forget(item);
      })
      .catch((error: unknown) => this.fail(item, error, 'postprocess'))
      .finally(() => this.#watch.leave(item));
  }

  /** @param watch told while the handler works on a stream */
  send(item: Item, answer: EncodedAnswer, watch: Pick<StageWatch, 'enter' | 'leave'> = this.#watch): void {
    const { body } = answer;
    if (!(body instanceof Uint8Array)) {
      item.streaming = true;
      void this.outbox
        .stream(item, { ...answer, body }, (thrown) => this.explain(item, thrown, 'postprocess'), watch)
        .then(() => this.forget(item));
      return;
    }
    if (body.byteLength > this.#options.maxResponseSize) {
      item.lap('encode');
      return this.refuse(item, tooLarge(body.byteLength, this.#options.maxResponseSize));
    }
    item.lap('encode');
    this.outbox.answer(item, answer.status, answer.headers, body);
    this.forget(item);
  }

  /** Asks the handler about itself. Never rejects. */
  async describe(item: Item, handler: AnyHandler): Promise<void> {
    const { context } = this.#options;
    this.#watch.enter(item);
    try {
      const result = handler.describe === undefined ? null : await handler.describe(context);
      item.lap('inference');
      this.answer(item, result);
    } catch (error) {
      this.fail(item, error, 'describe');
    }
    this.#watch.leave(item);
  }

  fail(item: Item, error: unknown, stage: Stage): void {
    if (!this.live(item)) return;
    item.lap(stage === 'handle' || stage === 'describe' ? 'inference' : stage);
    this.refuse(item, this.explain(item, error, stage));
  }

  refuse(item: Item, error: WireError): void {
    if (item.joined === undefined) this.outbox.fail(item, error);
    else item.joined.fail(item, error);
    this.forget(item);
  }

  explain(item: Item, error: unknown, stage: Stage): WireError {
    const { wire, bug } = toWireError(error, stage, this.#options.model);
    if (bug) {
      this.say({ type: 'log', level: 'error', message: stackOf(error), fields: { requestId: item.wire.id, stage } });
    }
    return wire;
  }

  /** An item nobody waits for is answered as such at the next border between stages. */
  dropped(item: Item): boolean {
    if (!this.live(item)) return true;
    const expired = item.wire.deadline !== undefined && monotonicNow() > item.wire.deadline;
    if (!item.cancelled && !expired) return false;
    item.cancel();
    this.refuse(item, unwanted(expired));
    return true;
  }

  forget(item: Item): void {
    this.#items.delete(item.wire.job);
  }

  say(message: FromWorker): void {
    this.#options.connection.send(message);
  }
}
