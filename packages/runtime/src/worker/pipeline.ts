import type { AnyHandler, BatchContext, StagedHandler, WholeBatchHandler } from '@onnxserve/handler-kit';
import { PredictionError } from '@onnxserve/handler-kit';
import { type SequenceStates, tensorPreprocess } from '@onnxserve/handler-kit/internal';
import type { ModelAxis } from '../batching/plan-runs.js';
import type { Envelope } from '../domain/envelope.js';
import type { Connection } from '../ipc/connection.js';
import type { WireItem } from '../ipc/messages.js';
import type { Session } from './engines/session.js';
import { Answers } from './answers.js';
import { customInference, handleBatch } from './batch-calls.js';
import { hung } from './errors.js';
import { Intake } from './intake.js';
import type { Item } from './item.js';
import { ItemQueue } from './item-queue.js';
import type { Outbox } from './outbox.js';
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
  /** States of the model's sequences; undefined when it has none. */
  readonly sequences?: SequenceStates | undefined;
  readonly connection: Connection;
}

/**
 * The way of a request through a worker: waiting → preprocess → prepared → run → postprocess → answer. Items are preprocessed
 * while others run; a run takes what is prepared, up to `batchSize` rows, but never splits a batch that is still being prepared.
 */
export class Pipeline {
  readonly #options: PipelineOptions;
  readonly #answers: Answers;
  readonly #intake: Intake;
  readonly #staged: StagedHandler<unknown, unknown, unknown> | undefined;
  readonly #whole: WholeBatchHandler<unknown> | undefined;
  readonly #planner: RunPlanner | undefined;
  readonly #watch: StageWatch;
  readonly #queue: ItemQueue;
  /** Items whose preprocess is asynchronous and not over. */
  readonly #preparing = new Set<Item>();
  #running = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#queue = new ItemQueue(options.batchSize);
    this.#watch = new StageWatch(options.responseTimeout, (item) => this.#expire(item));
    const { handler } = options;
    if ('handle' in handler && handler.handle !== undefined) this.#whole = handler as WholeBatchHandler<unknown>;
    else this.#staged = handler as StagedHandler<unknown, unknown, unknown>;
    this.#answers = new Answers(options, this.#watch);
    const inputs = this.#staged?.preprocess === tensorPreprocess ? options.session?.inputs : undefined;
    this.#intake = new Intake({ ...options, inputs }, this.#answers);
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
    return this.#answers.outbox;
  }

  get idle(): boolean {
    return this.#answers.empty;
  }

  accept(batch: number, wires: readonly WireItem[], blob: Buffer): void {
    this.#queue.add(batch, this.#intake.take(batch, wires, blob));
    this.#advance();
  }

  cancel(jobs: readonly number[]): void {
    for (const job of jobs) this.#answers.get(job)?.cancel();
  }

  /** Gives back up to `count` items that are in no run, the latest first. */
  recall(count: number): number[] {
    const back = this.#queue.recall(count);
    for (const item of back) this.#answers.forget(item);
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
    if (this.#answers.dropped(item)) return this.#queue.leave(item);
    if (item.wire.kind === 'describe') {
      this.#queue.leave(item);
      void this.#answers.describe(item, this.#options.handler);
      return;
    }
    try {
      const { sequence } = item.wire;
      const entering = sequence === undefined ? undefined : this.#options.sequences?.enter(sequence.number, sequence);
      if (this.#whole !== undefined && entering === undefined) return this.#queue.prepared(item);
      const features = entering === undefined ? this.#features(item) : entering.then(() => this.#features(item));
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

  #features(item: Item): unknown {
    const staged = this.#staged;
    if (staged === undefined) return undefined;
    if (item.wire.kind === 'explain' && staged.explain === undefined) {
      throw new PredictionError(`Model "${this.#options.model}" has no explain stage.`, 501, { reason: 'not-implemented' });
    }
    return staged.preprocess === undefined ? item.request : staged.preprocess(item.request, item.ctx);
  }

  /** @returns false when the item was given up meanwhile */
  #endPreparing(item: Item): boolean {
    this.#watch.leave(item);
    return this.#preparing.delete(item);
  }

  #finishPrepare(item: Item, features: unknown): void {
    item.lap('preprocess');
    if (this.#answers.dropped(item)) return this.#queue.leave(item);
    item.features = features;
    if (this.#staged !== undefined && this.#staged.inference === undefined && this.#planner !== undefined) {
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
    this.#answers.fail(item, error, 'preprocess');
  }

  #startRun(): void {
    const taken = this.#queue.takeRun();
    if (taken === undefined) return;
    const { rows } = taken;
    const live = taken.items.filter((item) => !this.#answers.dropped(item));
    if (live.length === 0) return this.#advance();
    this.#running = true;
    this.#answers.say({ type: 'run', jobs: live.map((item) => item.job), rows });
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
        done: (item, result) => this.#answers.answer(item, result),
        failed: (item, error) => this.#answers.fail(item, error, 'handle'),
      });
    }
    const listener = {
      done: (item: Item, outputs: unknown) => this.#post(item, outputs),
      failed: (item: Item, error: unknown) => this.#answers.fail(item, error, 'inference'),
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
    if (this.#answers.dropped(item)) return;
    const staged = this.#staged!;
    try {
      const result = postprocess(staged, outputs, item);
      if (!isThenable(result)) {
        item.lap('postprocess');
        return this.#answers.answer(item, result);
      }
      this.#watch.enter(item);
      result.then(
        (value) => {
          this.#watch.leave(item);
          item.lap('postprocess');
          this.#answers.answer(item, value);
        },
        (error: unknown) => {
          this.#watch.leave(item);
          this.#answers.fail(item, error, 'postprocess');
        },
      );
    } catch (error) {
      this.#answers.fail(item, error, 'postprocess');
    }
  }

  /** A stage hangs: its item is answered, and what it comes back with one day is ignored. */
  #expire(item: Item): void {
    if (!this.#answers.live(item)) return;
    const { model, responseTimeout } = this.#options;
    const error = hung(model, responseTimeout);
    item.timedOut = error;
    item.cancel();
    this.#answers.say({ type: 'log', level: 'error', message: error.message, fields: { requestId: item.wire.id } });
    // A stream ends itself with the error.
    if (item.streaming) return;
    if (this.#preparing.delete(item)) this.#queue.leave(item);
    this.#answers.refuse(item, error);
    this.#advance();
  }
}
