import { setImmediate as turn } from 'node:timers/promises';
import type { BatchContext, StepHandler, StepResult } from '@onnxserve/handler-kit';
import { PredictionError } from '@onnxserve/handler-kit';
import { encodeChunk, encodeResult, type SequenceStates } from '@onnxserve/handler-kit/internal';
import type { Envelope } from '../domain/envelope.js';
import type { Connection } from '../ipc/connection.js';
import type { WireItem } from '../ipc/messages.js';
import { Answers } from './answers.js';
import { ChunkQueue } from './chunk-queue.js';
import { hung, stackOf, WrongLengthError } from './errors.js';
import { Intake } from './intake.js';
import type { Item } from './item.js';
import type { Outbox } from './outbox.js';
import { Running } from './running.js';
import { isThenable } from './stages.js';
import { StageWatch } from './stage-watch.js';
import { planStep } from './step-policy.js';

export interface StepperOptions {
  readonly model: string;
  readonly handler: StepHandler<unknown, unknown>;
  readonly batchSize: number;
  /** Seconds that a preprocess may take; 0 or less: no limit. Steps are watched from outside. */
  readonly responseTimeout: number;
  /** Bytes. */
  readonly maxRequestSize: number;
  /** Bytes. */
  readonly maxResponseSize: number;
  readonly envelope: Envelope | undefined;
  readonly context: BatchContext<unknown>;
  readonly sequences?: SequenceStates | undefined;
  readonly connection: Connection;
}

/** A stream has no time of its own: its chunks come from steps. */
const unwatched = { enter: () => undefined, leave: () => undefined };

/**
 * A continuous batch: waiting → preprocess → ready → step, step, … → answer. Requests join between steps while there is room,
 * and leave when they are done, fail, or nobody waits for them.
 */
export class Stepper {
  readonly #options: StepperOptions;
  readonly #answers: Answers;
  readonly #intake: Intake;
  readonly #watch: StageWatch;
  #waiting: Item[] = [];
  readonly #preparing = new Set<Item>();
  #ready: Running[] = [];
  #running: readonly Running[] = [];
  #stepping = false;

  constructor(options: StepperOptions) {
    this.#options = options;
    this.#watch = new StageWatch(options.responseTimeout, (item) => this.#expire(item));
    this.#answers = new Answers(options, this.#watch);
    this.#intake = new Intake({ ...options, inputs: undefined }, this.#answers);
  }

  get outbox(): Outbox {
    return this.#answers.outbox;
  }

  get idle(): boolean {
    return this.#answers.empty;
  }

  accept(batch: number, wires: readonly WireItem[], blob: Buffer): void {
    this.#waiting.push(...this.#intake.take(batch, wires, blob));
    this.#advance();
  }

  cancel(jobs: readonly number[]): void {
    for (const job of jobs) this.#answers.get(job)?.cancel();
    this.#wake();
  }

  /** Gives back up to `count` items that are in no step yet, the latest first. */
  recall(count: number): number[] {
    const back: Item[] = [];
    while (back.length < count && this.#waiting.at(-1)?.joined === undefined && this.#waiting.length > 0) {
      back.push(this.#waiting.pop()!);
    }
    while (back.length < count && this.#ready.length > 0 && this.#ready.at(-1)!.item.joined === undefined) {
      const running = this.#ready.pop()!;
      this.#release(running);
      back.push(running.item);
    }
    for (const item of back) this.#answers.forget(item);
    return back.map((item) => item.wire.job);
  }

  #advance(): void {
    while (this.#waiting.length > 0 && this.#preparing.size + this.#ready.length < 2 * this.#options.batchSize) {
      this.#begin(this.#waiting.shift()!);
    }
    this.#wake();
  }

  #begin(item: Item): void {
    item.lap('queue');
    if (this.#answers.dropped(item)) return;
    const { handler, sequences } = this.#options;
    if (item.wire.kind === 'describe') return void this.#answers.describe(item, handler);
    try {
      const { sequence } = item.wire;
      const entering = sequence === undefined ? undefined : sequences?.enter(sequence.number, sequence);
      const job = entering === undefined ? this.#prepare(item) : entering.then(() => this.#prepare(item));
      if (!isThenable(job)) return this.#join(item, job);
      this.#preparing.add(item);
      this.#watch.enter(item);
      const over = (then: () => void): void => {
        this.#watch.leave(item);
        if (this.#preparing.delete(item)) then();
        this.#advance();
      };
      job.then(
        (value: unknown) => over(() => this.#join(item, value)),
        (error: unknown) => over(() => this.#answers.fail(item, error, 'preprocess')),
      );
    } catch (error) {
      this.#answers.fail(item, error, 'preprocess');
    }
  }

  #prepare(item: Item): unknown {
    if (item.wire.kind === 'explain') {
      throw new PredictionError(`Model "${this.#options.model}" has no explain stage.`, 501, { reason: 'not-implemented' });
    }
    const { handler } = this.#options;
    return handler.preprocess === undefined ? item.request : handler.preprocess(item.request, item.ctx);
  }

  #join(item: Item, job: unknown): void {
    item.lap('preprocess');
    this.#ready.push(new Running(item, job));
  }

  #wake(): void {
    if (!this.#stepping && this.#ready.length + this.#running.length > 0) void this.#loop();
  }

  /** Steps as long as there is something to step. One turn of the event loop between two steps lets requests join and clients leave. */
  async #loop(): Promise<void> {
    this.#stepping = true;
    await turn();
    for (;;) {
      const plan = planStep(this.#running, this.#ready, this.#options.batchSize);
      for (const running of plan.leave) this.#drop(running);
      this.#running = plan.running;
      this.#ready.splice(0, plan.join);
      for (const running of plan.running) if (running.gone) this.#drop(running);
      if (plan.step.length > 0) await this.#step(plan.step);
      else if (plan.leave.length === 0) break;
      this.#advance();
      await turn();
    }
    this.#stepping = false;
  }

  async #step(batch: readonly Running[]): Promise<void> {
    const { handler, context, model } = this.#options;
    const jobs = new Set<number>();
    for (const { item } of batch) {
      jobs.add(item.job);
      item.lap('wait');
    }
    this.#answers.say({ type: 'run', jobs: [...jobs], rows: batch.length });
    // The step may block this thread for as long as it likes, so the front must hear of it first.
    this.#options.connection.flush();
    let results: ReadonlyArray<StepResult | Error>;
    try {
      const returned: unknown = await handler.step(
        batch.map((running) => running.view),
        context,
      );
      if (!Array.isArray(returned) || returned.length !== batch.length)
        throw new WrongLengthError(model, 'step', batch.length, returned);
      results = returned as ReadonlyArray<StepResult | Error>;
    } catch (error) {
      for (const running of batch) this.#fail(running, error);
      return;
    }
    batch.forEach((running, index) => {
      running.item.lap('inference');
      running.item.batchSize = Math.max(running.item.batchSize, batch.length);
      this.#apply(running, results[index]);
    });
  }

  #apply(running: Running, result: StepResult | Error | undefined): void {
    if (running.gone) return;
    if (result instanceof Error) return this.#fail(running, result);
    try {
      if (typeof result !== 'object' || result === null || typeof result.more !== 'boolean')
        throw new TypeError('step() must return more(...), done(...) or an Error for each request');
      running.view.steps++;
      if (result.more) {
        if (result.chunk !== undefined) this.#stream(running, encodeChunk(result.chunk));
        return;
      }
      if (running.begun && result.result !== undefined) this.#stream(running, encodeChunk(result.result));
      this.#end(running);
      if (running.chunks !== undefined) running.chunks.end();
      else
        this.#answers.answer(running.item, running.collected ?? (result.result === undefined ? new Uint8Array() : result.result));
    } catch (error) {
      this.#fail(running, error);
    }
  }

  #stream(running: Running, chunk: Uint8Array): void {
    const { item } = running;
    if (item.joined !== undefined) return running.collect(chunk);
    if (running.chunks === undefined) {
      const chunks = new ChunkQueue(() => this.#wake());
      const { status, headers } = encodeResult(new Uint8Array(), item.ctx.response.set);
      running.chunks = chunks;
      this.#answers.send(item, { status, headers, body: chunks }, unwatched);
    }
    running.chunks.push(chunk);
  }

  #fail(running: Running, error: unknown): void {
    if (!this.#end(running)) return;
    if (running.chunks === undefined) this.#answers.fail(running.item, error, 'inference');
    else running.chunks.fail(error);
  }

  /** Nobody waits for it: a stream that has begun ends itself. */
  #drop(running: Running): void {
    this.#end(running);
    if (running.chunks === undefined) this.#answers.dropped(running.item);
    else running.chunks.end();
  }

  /** @returns false when it had left the batch before */
  #end(running: Running): boolean {
    if (!this.#running.includes(running)) return false;
    this.#running = this.#running.filter((it) => it !== running);
    this.#release(running);
    return true;
  }

  #release({ item, view }: Running): void {
    const failed = (error: unknown) => {
      const fields = { requestId: item.wire.id, stage: 'release' };
      this.#answers.say({ type: 'log', level: 'error', message: stackOf(error), fields });
    };
    try {
      const released = this.#options.handler.release?.(view.job, item.ctx);
      if (isThenable(released)) released.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  }

  /** A preprocess hangs: what it comes back with one day is ignored. */
  #expire(item: Item): void {
    if (!this.#answers.live(item)) return;
    const error = hung(this.#options.model, this.#options.responseTimeout);
    item.cancel();
    this.#answers.say({ type: 'log', level: 'error', message: error.message, fields: { requestId: item.wire.id } });
    this.#preparing.delete(item);
    this.#answers.refuse(item, error);
    this.#advance();
  }
}
