import type { Connection } from '../ipc/connection.js';
import type { FromWorker, WireError, WireMetric, WireResult } from '../ipc/messages.js';
import type { Item } from './item.js';
import type { StageWatch } from './stage-watch.js';

/** How much of a stream may be on its way and not yet taken by the client, bytes. */
const STREAM_WINDOW = 1024 * 1024;

export interface EncodedAnswer {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
}

/** Collects what is ready in one turn of the event loop and sends it as one frame. */
export class Outbox {
  readonly #connection: Connection;
  #results: WireResult[] = [];
  #bodies: Uint8Array[] = [];
  #metrics: WireMetric[] = [];
  #scheduled = false;
  readonly #windows = new Map<number, { unacknowledged: number; resume: (() => void) | undefined }>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  answer(item: Item, status: number, headers: ReadonlyArray<readonly [string, string]>, body: Uint8Array): void {
    const { stages, batchSize, mark } = item;
    this.#results.push({
      job: item.wire.job,
      ok: true,
      status,
      headers,
      length: body.byteLength,
      stages,
      batchSize,
      postprocessedAt: mark,
    });
    this.#bodies.push(body);
    this.#take(item);
  }

  fail(item: Item, error: WireError): void {
    this.#results.push({ job: item.wire.job, ok: false, error, stages: item.stages, batchSize: item.batchSize });
    this.#take(item);
  }

  /** Metrics that belong to no request. */
  metric(metric: WireMetric): void {
    this.#metrics.push(metric);
    this.#schedule();
  }

  /** Sends a stream chunk by chunk, no faster than the client takes it. */
  async stream(
    item: Item,
    answer: EncodedAnswer & { body: AsyncIterable<Uint8Array> },
    toError: (thrown: unknown) => WireError,
    watch: Pick<StageWatch, 'enter' | 'leave'>,
  ): Promise<void> {
    const { job } = item.wire;
    const window = { unacknowledged: 0, resume: undefined as (() => void) | undefined };
    this.#windows.set(job, window);
    const { signal } = item.request;
    let interrupt: (() => void) | undefined;
    const leave = () => interrupt?.();
    /** The client's leaving ends every wait. */
    const untilLeft = <T>(work: PromiseLike<T>) =>
      new Promise<T | undefined>((resolve, reject) => {
        interrupt = () => resolve(undefined);
        work.then(resolve, reject);
      });
    signal.addEventListener('abort', leave, { once: true });
    const { status, headers } = answer;
    this.#flush();
    this.#say({ type: 'stream-start', job, status, headers, stages: item.stages, batchSize: item.batchSize });
    let error: WireError | undefined;
    try {
      const chunks = answer.body[Symbol.asyncIterator]();
      for (;;) {
        watch.enter(item);
        const step = item.cancelled ? undefined : await untilLeft(chunks.next());
        watch.leave(item);
        if (step === undefined || item.cancelled) {
          // Not waited for: a handler that never comes to its next chunk never returns either.
          void Promise.resolve(chunks.return?.()).catch(() => undefined);
          break;
        }
        if (step.done === true) break;
        const chunk = step.value;
        if (chunk.byteLength === 0) continue;
        window.unacknowledged += chunk.byteLength;
        this.#say({ type: 'stream-chunk', job }, [chunk]);
        if (window.unacknowledged >= STREAM_WINDOW) {
          await untilLeft(new Promise<void>((resolve) => (window.resume = resolve)));
        }
      }
      error = item.timedOut;
    } catch (thrown) {
      error = toError(thrown);
    }
    watch.leave(item);
    signal.removeEventListener('abort', leave);
    this.#windows.delete(job);
    item.lap('postprocess');
    this.#metrics.push(...item.metrics);
    this.#flush();
    this.#say({ type: 'stream-end', job, stages: item.stages, ...(error === undefined ? {} : { error }) });
  }

  taken(job: number, bytes: number): void {
    const window = this.#windows.get(job);
    if (window === undefined) return;
    window.unacknowledged -= bytes;
    if (window.unacknowledged < STREAM_WINDOW && window.resume !== undefined) {
      window.resume();
      window.resume = undefined;
    }
  }

  #take(item: Item): void {
    if (item.metrics.length > 0) this.#metrics.push(...item.metrics);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#metrics.length > 0) {
      this.#say({ type: 'metrics', items: this.#metrics });
      this.#metrics = [];
    }
    if (this.#results.length === 0) return;
    this.#say({ type: 'results', items: this.#results }, this.#bodies);
    this.#results = [];
    this.#bodies = [];
  }

  #say(message: FromWorker, blobs?: readonly Uint8Array[]): void {
    this.#connection.send(message, blobs);
  }
}
