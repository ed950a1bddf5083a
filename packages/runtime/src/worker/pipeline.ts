import type { AnyHandler, BatchContext, HandlerResult, StagedHandler, WholeBatchHandler } from '@onnxserve/handler-kit';
import { PredictionError } from '@onnxserve/handler-kit';
import { encodeResult, tensorPreprocess } from '@onnxserve/handler-kit/internal';
import type { ModelAxis } from '../batching/plan-runs.js';
import type { Envelope } from '../domain/envelope.js';
import { monotonicNow } from '../domain/request.js';
import type { Connection } from '../ipc/connection.js';
import type { FromWorker, WireError, WireItem } from '../ipc/messages.js';
import type { Session } from './engines/session.js';
import { customInference, handleBatch } from './batch-calls.js';
import { hung, type Stage, stackOf, tooLarge, toWireError, unwanted } from './errors.js';
import { EnvelopeOpener } from './envelope-opener.js';
import { Item } from './item.js';
import { ItemQueue } from './item-queue.js';
import { type EncodedAnswer, Outbox } from './outbox.js';
import { type PartResult, partResult } from './part-result.js';
import { RunPlanner } from './runs.js';
import { isThenable, postprocess } from './stages.js';
import { StageWatch } from './stage-watch.js';

export interface PipelineOptions {
  readonly model: string;
  readonly handler: AnyHandler;
  readonly session: Session | undefined;
  readonly axis: ModelAxis;
  readonly batchSize: number;
  /** Nobody insists on a delay, so runs may be as large or small as pays. */
  readonly adaptive: boolean;
  /** Seconds; 0 or less: no limit. */
  readonly responseTimeout: number;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** Bytes. */
  readonly maxResponseSize: number;
  /** What bodies are taken out of unless their path says otherwise. */
  readonly envelope: Envelope | undefined;
  readonly context: BatchContext<unknown>;
  readonly connection: Connection;
}

/**
 * The way of a request through a worker: waiting → preprocess → prepared → run → postprocess → answer. Items are preprocessed
 * while others run; a run takes what is prepared, up to `batchSize` rows, but never splits a batch that is still being prepared.
 */
export class Pipeline {
  readonly #options: PipelineOptions;
  readonly #outbox: Outbox;
  readonly #staged: StagedHandler<unknown, unknown, unknown> | undefined;
  readonly #whole: WholeBatchHandler<unknown> | undefined;
  readonly #planner: RunPlanner | undefined;
  readonly #watch: StageWatch;
  readonly #opener: EnvelopeOpener;
  readonly #items = new Map<number, Item>();
  readonly #queue: ItemQueue;
  /** Items whose preprocess is asynchronous and not over. */
  readonly #preparing = new Set<Item>();
  #running = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#outbox = new Outbox(options.connection);
    this.#queue = new ItemQueue(options.batchSize);
    this.#watch = new StageWatch(options.responseTimeout, (item) => this.#expire(item));
    const { handler } = options;
    if ('handle' in handler && handler.handle !== undefined) this.#whole = handler as WholeBatchHandler<unknown>;
    else this.#staged = handler as StagedHandler<unknown, unknown, unknown>;
    const { context, maxRequestSize } = options;
    const inputs = this.#staged?.preprocess === tensorPreprocess ? options.session?.inputs : undefined;
    this.#opener = new EnvelopeOpener(
      { context, maxRequestSize, inputs },
      {
        answer: (whole, answer) => this.#send(whole, answer),
        fail: (whole, error) => this.#refuse(whole, error),
      },
    );
    if (options.session !== undefined) {
      const pad = this.#staged?.inference === undefined ? this.#staged?.pad : undefined;
      this.#planner = new RunPlanner(
        options.session,
        options.axis,
        options.batchSize,
        options.model,
        options.adaptive,
        typeof pad === 'function' ? pad(options.context.state) : pad,
      );
    }
  }

  get outbox(): Outbox {
    return this.#outbox;
  }

  get idle(): boolean {
    return this.#items.size === 0;
  }

  accept(batch: number, wires: readonly WireItem[], blob: Buffer): void {
    let at = 0;
    const items: Item[] = [];
    for (const wire of wires) {
      const body = blob.subarray(at, at + wire.length);
      at += wire.length;
      const item = new Item(wire, batch, body, this.#options.context, this.#options.maxRequestSize);
      this.#items.set(wire.job, item);
      const envelope = wire.envelope ?? this.#options.envelope;
      if (envelope === undefined || envelope === 'none' || wire.kind === 'describe') items.push(item);
      else items.push(...this.#open(item, body, envelope));
    }
    this.#queue.add(batch, items);
    this.#advance();
  }

  /** What the handler is given of a request in an envelope; nothing when it is answered already. */
  #open(whole: Item, body: Uint8Array, envelope: Envelope): readonly Item[] {
    whole.lap('queue');
    if (this.#dropped(whole)) return [];
    try {
      const items = this.#opener.open(whole, body, envelope);
      for (const item of items) this.#items.set(item.wire.job, item);
      return items;
    } catch (error) {
      this.#fail(whole, error, 'preprocess');
      return [];
    }
  }

  cancel(jobs: readonly number[]): void {
    for (const job of jobs) this.#items.get(job)?.cancel();
  }

  /** Gives back up to `count` items that are in no run, the latest first. */
  recall(count: number): number[] {
    const back = this.#queue.recall(count);
    for (const item of back) this.#forget(item);
    this.#advance();
    return back.map((item) => item.wire.job);
  }

  #advance(): void {
    for (;;) {
      const item = this.#queue.next(this.#preparing.size);
      if (item === undefined) break;
      this.#begin(item);
    }
    if (!this.#running) this.#startRun();
  }

  #begin(item: Item): void {
    item.lap('queue');
    if (this.#dropped(item)) return this.#queue.leave(item);
    if (item.wire.kind === 'describe') {
      this.#queue.leave(item);
      void this.#describe(item);
      return;
    }
    const staged = this.#staged;
    if (this.#whole !== undefined) return this.#queue.prepared(item);
    try {
      if (item.wire.kind === 'explain' && staged?.explain === undefined) {
        throw new PredictionError(`Model "${this.#options.model}" has no explain stage.`, 501, { reason: 'not-implemented' });
      }
      const features = staged?.preprocess === undefined ? item.request : staged.preprocess(item.request, item.ctx);
      if (!isThenable(features)) return this.#finishPrepare(item, features);
      this.#preparing.add(item);
      this.#watch.enter(item);
      features.then(
        (value) => {
          if (!this.#endPreparing(item)) return;
          this.#finishPrepare(item, value);
          this.#advance();
        },
        (error: unknown) => {
          if (!this.#endPreparing(item)) return;
          this.#failPrepare(item, error);
          this.#advance();
        },
      );
    } catch (error) {
      this.#failPrepare(item, error);
    }
  }

  /** @returns false when the item was given up meanwhile */
  #endPreparing(item: Item): boolean {
    this.#watch.leave(item);
    return this.#preparing.delete(item);
  }

  #finishPrepare(item: Item, features: unknown): void {
    item.lap('preprocess');
    if (this.#dropped(item)) return this.#queue.leave(item);
    item.features = features;
    if (this.#staged?.inference === undefined && this.#planner !== undefined) {
      try {
        this.#planner.prepare(item);
      } catch (error) {
        return this.#failPrepare(item, error);
      }
    }
    this.#queue.prepared(item);
  }

  #failPrepare(item: Item, error: unknown): void {
    this.#queue.leave(item);
    this.#fail(item, error, 'preprocess');
  }

  #startRun(): void {
    const taken = this.#queue.takeRun();
    if (taken === undefined) return;
    const { rows } = taken;
    const live = taken.items.filter((item) => !this.#dropped(item));
    if (live.length === 0) return this.#advance();
    this.#running = true;
    this.#say({ type: 'run', jobs: live.map((item) => item.job), rows });
    // What follows may block this thread for as long as it likes, so the front must hear of it first.
    if (this.#options.session?.inMainThread !== true || this.#staged?.inference !== undefined) this.#options.connection.flush();
    void this.#run(live).then(() => {
      this.#running = false;
      this.#advance();
    });
  }

  /** Never rejects: every item is answered, whatever happens. */
  async #run(items: readonly Item[]): Promise<void> {
    for (const item of items) item.lap('wait');
    const { model, context } = this.#options;
    if (this.#whole !== undefined) {
      return await handleBatch(model, this.#whole, context, items, {
        done: (item, result) => this.#answer(item, result),
        failed: (item, error) => this.#fail(item, error, 'handle'),
      });
    }
    const listener = {
      done: (item: Item, outputs: unknown) => this.#post(item, outputs),
      failed: (item: Item, error: unknown) => this.#fail(item, error, 'inference'),
    };
    if (this.#staged?.inference !== undefined) return await customInference(model, this.#staged, context, items, listener);
    if (this.#planner === undefined) {
      for (const item of items) this.#post(item, item.features);
      return;
    }
    await this.#planner.run(items, listener);
  }

  #post(item: Item, outputs: unknown): void {
    item.lap('wait');
    if (this.#dropped(item)) return;
    const staged = this.#staged!;
    try {
      const result = postprocess(staged, outputs, item);
      if (!isThenable(result)) {
        item.lap('postprocess');
        return this.#answer(item, result);
      }
      this.#watch.enter(item);
      result.then(
        (value) => {
          this.#watch.leave(item);
          item.lap('postprocess');
          this.#answer(item, value);
        },
        (error: unknown) => {
          this.#watch.leave(item);
          this.#fail(item, error, 'postprocess');
        },
      );
    } catch (error) {
      this.#fail(item, error, 'postprocess');
    }
  }

  #answer(item: Item, result: HandlerResult | undefined): void {
    if (this.#dropped(item)) return;
    try {
      if (item.joined === undefined) return this.#send(item, encodeResult(result, item.ctx.response.set));
      const part = partResult(result, item.ctx.response.set, this.#options.maxResponseSize);
      if (isThenable(part)) return this.#collect(item, part);
      item.joined.done(item, part);
      this.#forget(item);
    } catch (error) {
      this.#fail(item, error, 'encode');
    }
  }

  /** A part that is streamed is awaited to its end. */
  #collect(item: Item, result: Promise<PartResult>): void {
    this.#watch.enter(item);
    result
      .then((part) => {
        item.lap('postprocess');
        if (this.#dropped(item)) return;
        item.joined!.done(item, part);
        this.#forget(item);
      })
      .catch((error: unknown) => this.#fail(item, error, 'postprocess'))
      .finally(() => this.#watch.leave(item));
  }

  #send(item: Item, answer: EncodedAnswer): void {
    const { body } = answer;
    if (!(body instanceof Uint8Array)) {
      item.streaming = true;
      void this.#outbox
        .stream(item, { ...answer, body }, (thrown) => this.#explainError(item, thrown, 'postprocess'), this.#watch)
        .then(() => this.#forget(item));
      return;
    }
    if (body.byteLength > this.#options.maxResponseSize) {
      item.lap('encode');
      return this.#refuse(item, tooLarge(body.byteLength, this.#options.maxResponseSize));
    }
    item.lap('encode');
    this.#outbox.answer(item, answer.status, answer.headers, body);
    this.#forget(item);
  }

  async #describe(item: Item): Promise<void> {
    const { handler, context } = this.#options;
    this.#watch.enter(item);
    try {
      const result = handler.describe === undefined ? null : await handler.describe(context);
      item.lap('inference');
      this.#answer(item, result);
    } catch (error) {
      this.#fail(item, error, 'describe');
    }
    this.#watch.leave(item);
  }

  #fail(item: Item, error: unknown, stage: Stage): void {
    if (!this.#items.has(item.wire.job)) return;
    item.lap(stage === 'handle' || stage === 'describe' ? 'inference' : stage);
    this.#refuse(item, this.#explainError(item, error, stage));
  }

  #refuse(item: Item, error: WireError): void {
    if (item.joined === undefined) this.#outbox.fail(item, error);
    else item.joined.fail(item, error);
    this.#forget(item);
  }

  #explainError(item: Item, error: unknown, stage: Stage) {
    const { wire, bug } = toWireError(error, stage, this.#options.model);
    if (bug) {
      this.#say({ type: 'log', level: 'error', message: stackOf(error), fields: { requestId: item.wire.id, stage } });
    }
    return wire;
  }

  /** A stage hangs: its item is answered, and what it comes back with one day is ignored. */
  #expire(item: Item): void {
    if (!this.#items.has(item.wire.job)) return;
    const { model, responseTimeout } = this.#options;
    const error = hung(model, responseTimeout);
    item.timedOut = error;
    item.cancel();
    this.#say({ type: 'log', level: 'error', message: error.message, fields: { requestId: item.wire.id } });
    // A stream ends itself with the error.
    if (item.streaming) return;
    if (this.#preparing.delete(item)) this.#queue.leave(item);
    this.#refuse(item, error);
    this.#advance();
  }

  /** An item nobody waits for is answered as such at the next border between stages. */
  #dropped(item: Item): boolean {
    if (!this.#items.has(item.wire.job)) return true;
    const expired = item.wire.deadline !== undefined && monotonicNow() > item.wire.deadline;
    if (!item.cancelled && !expired) return false;
    item.cancel();
    this.#refuse(item, unwanted(expired));
    return true;
  }

  #forget(item: Item): void {
    this.#items.delete(item.wire.job);
  }

  #say(message: FromWorker): void {
    this.#options.connection.send(message);
  }
}
