import type { AnyHandler, BatchContext, HandlerResult, StagedHandler, WholeBatchHandler } from '@onnxserve/handler-kit';
import { PredictionError } from '@onnxserve/handler-kit';
import { encodeResult } from '@onnxserve/handler-kit/internal';
import type { ModelAxis } from '../batching/plan-runs.js';
import { monotonicNow } from '../domain/request.js';
import type { Connection } from '../ipc/connection.js';
import type { FromWorker, WireItem } from '../ipc/messages.js';
import type { Session } from './engines/session.js';
import { type Stage, toWireError } from './errors.js';
import { Item } from './item.js';
import { type EncodedAnswer, Outbox } from './outbox.js';
import { RunPlanner } from './runs.js';

export interface PipelineOptions {
  readonly model: string;
  readonly handler: AnyHandler;
  readonly session: Session | undefined;
  readonly axis: ModelAxis;
  readonly batchSize: number;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** Bytes. */
  readonly maxResponseSize: number;
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
  readonly #items = new Map<number, Item>();
  /** Items of a batch that are not prepared yet. */
  readonly #unprepared = new Map<number, number>();
  #waiting: Item[] = [];
  #prepared: Item[] = [];
  #preparing = 0;
  #running = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#outbox = new Outbox(options.connection);
    const { handler } = options;
    if ('handle' in handler && handler.handle !== undefined) this.#whole = handler as WholeBatchHandler<unknown>;
    else this.#staged = handler as StagedHandler<unknown, unknown, unknown>;
    if (options.session !== undefined)
      this.#planner = new RunPlanner(options.session, options.axis, options.batchSize, options.model);
  }

  get outbox(): Outbox {
    return this.#outbox;
  }

  get idle(): boolean {
    return this.#items.size === 0;
  }

  accept(batch: number, wires: readonly WireItem[], blob: Buffer): void {
    let at = 0;
    this.#unprepared.set(batch, wires.length);
    for (const wire of wires) {
      const body = blob.subarray(at, at + wire.length);
      at += wire.length;
      const item = new Item(wire, batch, body, this.#options.context, this.#options.maxRequestSize);
      this.#items.set(wire.job, item);
      this.#waiting.push(item);
    }
    this.#advance();
  }

  cancel(jobs: readonly number[]): void {
    for (const job of jobs) this.#items.get(job)?.cancel();
  }

  /** Gives back up to `count` items that are in no run, the latest first. */
  recall(count: number): number[] {
    const back: Item[] = [];
    while (back.length < count && this.#waiting.length > 0) back.push(this.#waiting.pop()!);
    while (back.length < count && this.#prepared.length > 0) back.push(this.#prepared.pop()!);
    for (const item of back) {
      this.#forget(item);
      if (this.#unprepared.has(item.batch)) this.#oneLess(item.batch);
    }
    this.#advance();
    return back.map((item) => item.wire.job);
  }

  #advance(): void {
    while (this.#waiting.length > 0 && this.#preparing + this.#prepared.length < 2 * this.#options.batchSize) {
      this.#begin(this.#waiting.shift()!);
    }
    if (!this.#running && this.#prepared.length > 0) this.#startRun();
  }

  #begin(item: Item): void {
    item.lap('queue');
    if (this.#dropped(item)) return this.#oneLess(item.batch);
    if (item.wire.kind === 'describe') {
      this.#oneLess(item.batch);
      void this.#describe(item);
      return;
    }
    const staged = this.#staged;
    if (this.#whole !== undefined) return this.#ready(item);
    try {
      if (item.wire.kind === 'explain' && staged?.explain === undefined) {
        throw new PredictionError(`Model "${this.#options.model}" has no explain stage.`, 501, { reason: 'not-implemented' });
      }
      const features = staged?.preprocess === undefined ? item.request : staged.preprocess(item.request, item.ctx);
      if (!isThenable(features)) return this.#finishPrepare(item, features);
      this.#preparing++;
      features.then(
        (value) => {
          this.#preparing--;
          this.#finishPrepare(item, value);
          this.#advance();
        },
        (error: unknown) => {
          this.#preparing--;
          this.#failPrepare(item, error);
          this.#advance();
        },
      );
    } catch (error) {
      this.#failPrepare(item, error);
    }
  }

  #finishPrepare(item: Item, features: unknown): void {
    item.lap('preprocess');
    if (this.#dropped(item)) return this.#oneLess(item.batch);
    item.features = features;
    if (this.#staged?.inference === undefined && this.#planner !== undefined) {
      try {
        this.#planner.prepare(item);
      } catch (error) {
        return this.#failPrepare(item, error);
      }
    }
    this.#ready(item);
  }

  #ready(item: Item): void {
    this.#prepared.push(item);
    this.#oneLess(item.batch);
  }

  #failPrepare(item: Item, error: unknown): void {
    this.#oneLess(item.batch);
    this.#fail(item, error, 'preprocess');
  }

  #oneLess(batch: number): void {
    const left = (this.#unprepared.get(batch) ?? 1) - 1;
    if (left > 0) this.#unprepared.set(batch, left);
    else this.#unprepared.delete(batch);
  }

  /** Takes whole batches that are ready, up to `batchSize` rows. */
  #startRun(): void {
    const taken: Item[] = [];
    let rows = 0;
    let at = 0;
    while (at < this.#prepared.length) {
      const batch = this.#prepared[at]!.batch;
      if (this.#unprepared.has(batch)) break;
      let end = at;
      let more = 0;
      while (end < this.#prepared.length && this.#prepared[end]!.batch === batch) more += this.#prepared[end++]!.rows;
      if (taken.length > 0 && rows + more > this.#options.batchSize) break;
      for (; at < end; at++) taken.push(this.#prepared[at]!);
      rows += more;
    }
    if (taken.length === 0) return;
    this.#prepared = this.#prepared.slice(at);
    const live = taken.filter((item) => !this.#dropped(item));
    if (live.length === 0) return this.#advance();
    this.#running = true;
    this.#say({ type: 'run', jobs: live.map((item) => item.wire.job), rows });
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
    if (this.#whole !== undefined) return await this.#handleBatch(items, this.#whole);
    if (this.#staged?.inference !== undefined) return await this.#customInference(items);
    if (this.#planner === undefined) {
      for (const item of items) this.#post(item, item.features);
      return;
    }
    await this.#planner.run(items, {
      done: (item, outputs) => this.#post(item, outputs),
      failed: (item, error) => this.#fail(item, error, 'inference'),
    });
  }

  async #customInference(items: readonly Item[]): Promise<void> {
    let outputs: ReadonlyArray<unknown>;
    try {
      outputs = await this.#staged!.inference!(
        items.map((item) => item.features),
        this.#options.context,
      );
      if (!Array.isArray(outputs) || outputs.length !== items.length) throw this.#wrongLength('inference', items.length, outputs);
    } catch (error) {
      // Whose fault it was shows when each runs alone; a mates' error must not reach the innocent.
      if (items.length > 1 && !(error instanceof WrongLengthError)) {
        for (const item of items) await this.#customInference([item]);
        return;
      }
      for (const item of items) this.#fail(item, error, 'inference');
      return;
    }
    items.forEach((item, index) => {
      item.lap('inference');
      item.batchSize = items.length;
      const output: unknown = outputs[index];
      if (output instanceof Error) this.#fail(item, output, 'inference');
      else this.#post(item, output);
    });
  }

  async #handleBatch(items: readonly Item[], handler: WholeBatchHandler<unknown>): Promise<void> {
    let results: ReadonlyArray<HandlerResult | Error>;
    try {
      results = await handler.handle(
        items.map(({ request, ctx }) => ({ request, ctx })),
        this.#options.context,
      );
      if (!Array.isArray(results) || results.length !== items.length) throw this.#wrongLength('handle', items.length, results);
    } catch (error) {
      for (const item of items) {
        item.lap('inference');
        this.#fail(item, error, 'handle');
      }
      return;
    }
    items.forEach((item, index) => {
      item.lap('inference');
      item.batchSize = items.length;
      const result = results[index];
      if (result instanceof Error) this.#fail(item, result, 'handle');
      else this.#answer(item, result);
    });
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
      result.then(
        (value) => {
          item.lap('postprocess');
          this.#answer(item, value);
        },
        (error: unknown) => this.#fail(item, error, 'postprocess'),
      );
    } catch (error) {
      this.#fail(item, error, 'postprocess');
    }
  }

  #answer(item: Item, result: HandlerResult | undefined): void {
    if (this.#dropped(item)) return;
    try {
      this.#send(item, encodeResult(result, item.ctx.response.set));
    } catch (error) {
      this.#fail(item, error, 'encode');
    }
  }

  #send(item: Item, answer: EncodedAnswer): void {
    const { body } = answer;
    if (!(body instanceof Uint8Array)) {
      void this.#outbox
        .stream(item, { ...answer, body }, (thrown) => this.#explainError(item, thrown, 'postprocess'))
        .then(() => this.#forget(item));
      return;
    }
    if (body.byteLength > this.#options.maxResponseSize) {
      const { maxResponseSize } = this.#options;
      item.lap('encode');
      this.#outbox.fail(item, {
        code: 'RESPONSE_TOO_LARGE',
        message: `The answer has ${body.byteLength} bytes, the limit is ${maxResponseSize} (max_response_size in config.properties).`,
      });
      this.#forget(item);
      return;
    }
    item.lap('encode');
    this.#outbox.answer(item, answer.status, answer.headers, body);
    this.#forget(item);
  }

  async #describe(item: Item): Promise<void> {
    const { handler, context } = this.#options;
    try {
      const result = handler.describe === undefined ? null : await handler.describe(context);
      item.lap('inference');
      this.#answer(item, result);
    } catch (error) {
      this.#fail(item, error, 'describe');
    }
  }

  #fail(item: Item, error: unknown, stage: Stage): void {
    if (!this.#items.has(item.wire.job)) return;
    item.lap(stage === 'handle' || stage === 'describe' ? 'inference' : stage);
    this.#outbox.fail(item, this.#explainError(item, error, stage));
    this.#forget(item);
  }

  #explainError(item: Item, error: unknown, stage: Stage) {
    if (error instanceof WrongLengthError)
      return { code: 'HANDLER_FAILED' as const, message: error.message, reason: 'handler-error' };
    const { wire, bug } = toWireError(error, stage, this.#options.model);
    if (bug) {
      const shown = error instanceof Error ? stackOf(error) : `${stage} threw ${String(error)}, which is not an Error`;
      this.#say({ type: 'log', level: 'error', message: shown, fields: { requestId: item.wire.id, stage } });
    }
    return wire;
  }

  #wrongLength(stage: string, wanted: number, got: unknown): WrongLengthError {
    const what = Array.isArray(got) ? `${got.length}` : `${got === null ? 'null' : typeof got} instead of a list`;
    return new WrongLengthError(
      `The handler of model "${this.#options.model}" must return one result for each request from ${stage}(): expected ${wanted}, got ${what}.`,
    );
  }

  /** An item nobody waits for is answered as such at the next border between stages. */
  #dropped(item: Item): boolean {
    if (!this.#items.has(item.wire.job)) return true;
    const expired = item.wire.deadline !== undefined && monotonicNow() > item.wire.deadline;
    if (!item.cancelled && !expired) return false;
    item.cancel();
    this.#outbox.fail(item, {
      code: expired ? 'DEADLINE_EXCEEDED' : 'CANCELLED',
      message: expired
        ? 'The request expired before it was answered.'
        : 'The client closed the connection before the answer was ready.',
    });
    this.#forget(item);
    return true;
  }

  #forget(item: Item): void {
    this.#items.delete(item.wire.job);
  }

  #say(message: FromWorker): void {
    this.#options.connection.send(message);
  }
}

function postprocess(
  staged: StagedHandler<unknown, unknown, unknown>,
  outputs: unknown,
  item: Item,
): HandlerResult | Promise<HandlerResult> {
  if (item.wire.kind === 'explain') return staged.explain!(outputs, item.ctx);
  return staged.postprocess === undefined ? (outputs as HandlerResult) : staged.postprocess(outputs, item.ctx);
}

class WrongLengthError extends Error {}

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\nCaused by: ${stackOf(error.cause)}` : own;
}
