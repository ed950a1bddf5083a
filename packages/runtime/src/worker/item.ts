import type {
  BatchContext,
  HandlerContext,
  HandlerLog,
  HandlerMetrics,
  InferenceRequest,
  InferenceRequestInfo,
  MetricLabels,
  SequenceHandle,
  SequencePlace,
} from '@onnxserve/handler-kit';
import { createRequest, noSequence, RecordedControls, type RequestInit } from '@onnxserve/handler-kit/internal';
import { monotonicNow, noStages, type StageTimes } from '../domain/request.js';
import type { WireError, WireItem, WireMetric } from '../ipc/messages.js';
import type { PartInit } from './envelopes.js';
import type { Joined } from './joined.js';

const wholeRequest: PartInit = {};

/** One request in the worker, from its arrival to its answer, or a part of one. */
export class Item {
  readonly wire: WireItem;
  batch: number;
  /** The request that this is part number `index` of; undefined for a request of its own. */
  joined: Joined | undefined;
  index = 0;
  readonly request: InferenceRequest;
  readonly ctx: ItemContext;
  readonly stages: StageTimes = noStages();
  readonly metrics: WireMetric[] = [];
  #abort: AbortController | undefined;
  #cancelled = false;
  onCancel: (() => void) | undefined;
  /** Features of a handler with its own inference, or named tensors. */
  features: unknown;
  rows = 1;
  /** Items of one key can share a run. */
  key = '';
  /** Elements of a row of the inputs that may be padded; undefined when none may. */
  size: number | undefined;
  /** Items that shared its run, itself included. */
  batchSize = 1;
  streaming = false;
  /** Set when its handler took too long while it streamed. */
  timedOut: WireError | undefined;
  /** When the last stage ended: what comes next has waited since then. */
  mark: number;

  constructor(
    wire: WireItem,
    batch: number,
    body: Uint8Array,
    base: BatchContext<unknown>,
    maxRequestSize: number,
    part: PartInit = wholeRequest,
  ) {
    this.wire = wire;
    this.batch = batch;
    this.mark = wire.receivedAt;
    this.request = createRequest(new ItemRequest(this, part.body ?? body, maxRequestSize, part));
    this.ctx = new ItemContext(base, this.request, this.metrics);
  }

  /** The request as the front knows it. */
  get job(): number {
    return this.joined === undefined ? this.wire.job : this.joined.parent.wire.job;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Made when somebody asks: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#cancelled) this.#abort.abort();
    }
    return this.#abort.signal;
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#abort?.abort();
    this.onCancel?.();
  }

  /** Goes on where another item's time was counted up to. */
  after(earlier: Item): this {
    Object.assign(this.stages, earlier.stages);
    this.mark = earlier.mark;
    return this;
  }

  /** A stage that somebody else timed; what came before it since the last span was waiting. Monotonic nanoseconds. */
  span(stage: keyof StageTimes, from: number, to: number): void {
    this.stages.wait += Math.max(0, from - this.mark);
    this.stages[stage] += to - from;
    this.mark = to;
  }

  /** Ends a span that began when the last one ended. */
  lap(stage: keyof StageTimes): void {
    const now = monotonicNow();
    this.stages[stage] += now - this.mark;
    this.mark = now;
  }
}

/** What the kit decodes when a handler asks for it. */
class ItemRequest implements RequestInit {
  constructor(
    private readonly item: Item,
    readonly body: Uint8Array,
    readonly maxDecompressedBytes: number,
    private readonly part: PartInit,
  ) {}

  get id() {
    return this.item.wire.id;
  }
  get kind() {
    return this.item.wire.kind;
  }
  get rawHeaders() {
    return this.item.wire.rawHeaders;
  }
  get urlPath() {
    return this.item.wire.urlPath;
  }
  get query() {
    return this.item.wire.query;
  }
  get queryIsInput() {
    return this.part.queryIsInput ?? this.item.wire.queryIsInput;
  }
  get parts() {
    return this.part.parts ?? this.item.wire.parts;
  }
  get value() {
    return this.part.value;
  }
  get tensors() {
    return this.part.tensors;
  }
  get parameters() {
    return this.part.parameters;
  }
  get sequence(): SequencePlace | undefined {
    const { sequence } = this.item.wire;
    return sequence && { id: sequence.id, start: sequence.start, end: sequence.end };
  }
  get signal() {
    return this.item.signal;
  }
}

/** `ctx` of one request. */
export class ItemContext implements HandlerContext<unknown> {
  readonly request: InferenceRequestInfo;
  readonly response = new RecordedControls();
  /** Set for members of sequences. */
  place: SequenceHandle<unknown> | undefined;
  #metrics: HandlerMetrics | undefined;
  readonly #sink: WireMetric[];
  readonly #base: BatchContext<unknown>;

  constructor(base: BatchContext<unknown>, request: InferenceRequest, sink: WireMetric[]) {
    this.#base = base;
    this.request = request;
    this.#sink = sink;
  }

  get metrics(): HandlerMetrics {
    this.#metrics ??= new MetricSink((metric) => this.#sink.push({ ...metric, requestIds: this.request.id }));
    return this.#metrics;
  }

  get sequence(): SequenceHandle<unknown> {
    return this.place ?? noSequence(this.#base.model.name);
  }
  get model() {
    return this.#base.model;
  }
  get session() {
    return this.#base.session;
  }
  get sessions() {
    return this.#base.sessions;
  }
  get state() {
    return this.#base.state;
  }
  get device() {
    return this.#base.device;
  }
  get worker() {
    return this.#base.worker;
  }
  get log(): HandlerLog {
    const { log } = this.#base;
    const with_ = (fields: Record<string, unknown> | undefined) => ({ requestId: this.request.id, ...fields });
    return {
      debug: (message, fields) => log.debug(message, with_(fields)),
      info: (message, fields) => log.info(message, with_(fields)),
      warn: (message, fields) => log.warn(message, with_(fields)),
      error: (message, fields) => log.error(message, with_(fields)),
    };
  }
}

/** TorchServe's kinds of metrics as typed messages. */
export class MetricSink implements HandlerMetrics {
  readonly #add: (metric: Omit<WireMetric, 'requestIds'>) => void;

  constructor(add: (metric: Omit<WireMetric, 'requestIds'>) => void) {
    this.#add = add;
  }

  counter(name: string, value = 1, labels: MetricLabels = {}): void {
    this.#emit(name, 'counter', value, 'count', labels);
  }
  gauge(name: string, value: number, unit = 'count', labels: MetricLabels = {}): void {
    this.#emit(name, 'gauge', value, unit, labels);
  }
  time(name: string, value: number, unit: 'ms' | 's' = 'ms', labels: MetricLabels = {}): void {
    this.#emit(name, 'gauge', value, unit, labels);
  }
  size(name: string, value: number, unit: 'B' | 'kB' | 'MB' | 'GB' = 'MB', labels: MetricLabels = {}): void {
    this.#emit(name, 'gauge', value, unit, labels);
  }
  percent(name: string, value: number, labels: MetricLabels = {}): void {
    this.#emit(name, 'gauge', value, 'percent', labels);
  }
  histogram(name: string, value: number, labels: MetricLabels = {}): void {
    this.#emit(name, 'histogram', value, 'count', labels);
  }

  #emit(name: string, type: WireMetric['type'], value: number, unit: string, labels: MetricLabels): void {
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw new TypeError(`metric "${name}" got ${String(value)}, which is not a finite number`);
    if (type === 'counter' && value < 0) throw new RangeError(`counter "${name}" cannot go down by ${-value}`);
    this.#add({ name, type, value, unit, labels });
  }
}
