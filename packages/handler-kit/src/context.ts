import type { Datatype } from './datatype.js';
import type { SequenceHandle, SequencePlace } from './sequence.js';
import type { NamedTensors } from './tensor.js';

/** One input or output of a model. */
export interface TensorSignature {
  readonly name: string;
  readonly datatype: Datatype;
  /** Dimensions; a string is a symbolic (free) dimension, -1 one without a name. */
  readonly shape: ReadonlyArray<number | string>;
}

/** A loaded ONNX session. */
export interface SessionHandle {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  /** Execution providers in use, for example `['cpu']`. */
  readonly providers: readonly string[];
  /**
   * Runs the model once.
   * @param feeds one tensor for each input
   * @param outputs names wanted; all when left out
   * @throws {PredictionError} 400 naming the input, what it got and what it wants
   */
  run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors>;
}

export interface ModelInfo {
  readonly name: string;
  readonly version: string;
  /** Folder of the unpacked archive, absolute. */
  readonly directory: string;
  /** The keys of `model-config.yaml` that the server gives no meaning to. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Absolute path of a file of the archive. @throws when it would lie outside */
  path(file: string): string;
  bytes(file: string): Promise<Uint8Array>;
  text(file: string): Promise<string>;
  json<T = unknown>(file: string): Promise<T>;
}

export interface HandlerLog {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

export type MetricLabels = Readonly<Record<string, string>>;

/** Metrics of a handler, under TorchServe's kinds. They count when the request's answer counts. */
export interface HandlerMetrics {
  /** Adds to a counter. */
  counter(name: string, value?: number, labels?: MetricLabels): void;
  /** Sets a gauge. */
  gauge(name: string, value: number, unit?: string, labels?: MetricLabels): void;
  /** Sets a gauge in milliseconds or seconds. */
  time(name: string, value: number, unit?: 'ms' | 's', labels?: MetricLabels): void;
  /** Sets a gauge in bytes, or a multiple. */
  size(name: string, value: number, unit?: 'B' | 'kB' | 'MB' | 'GB', labels?: MetricLabels): void;
  /** Sets a gauge in percent. */
  percent(name: string, value: number, labels?: MetricLabels): void;
  /** Observes a value in a histogram. */
  histogram(name: string, value: number, labels?: MetricLabels): void;
}

/** What the answer will carry beside its body. */
export interface ResponseControls {
  status(code: number): void;
  header(name: string, value: string): void;
  contentType(value: string): void;
}

/** What `load` gets. */
export interface LoadContext {
  readonly model: ModelInfo;
  /** The archive's main model; absent when the archive has none. */
  readonly session: SessionHandle | undefined;
  /** Further models, named under `onnx: sessions:` in `model-config.yaml`. */
  readonly sessions: Readonly<Record<string, SessionHandle>>;
  readonly log: HandlerLog;
  readonly metrics: HandlerMetrics;
  /** The device that the server chose for this worker. */
  readonly device: { readonly type: 'cpu' | 'gpu'; readonly id: number | undefined };
  readonly worker: { readonly id: string; readonly threads: number };
}

/** What a stage that runs for the whole batch gets. */
export interface BatchContext<State> extends LoadContext {
  readonly state: State;
}

/** What a stage that runs for one request gets. */
export interface HandlerContext<State, SequenceState = unknown> extends BatchContext<State> {
  readonly request: InferenceRequestInfo;
  readonly response: ResponseControls;
  /** The sequence of the request. @throws {Error} when the model has no `sequenceBatching` */
  readonly sequence: SequenceHandle<SequenceState>;
}

/** What a stage that begins or ends a sequence gets. */
export interface SequenceContext<State> extends BatchContext<State> {
  readonly sequence: Pick<SequencePlace, 'id'>;
}

export interface InferenceRequestInfo {
  readonly id: string;
  readonly kind: 'predict' | 'explain' | 'describe';
  readonly signal: AbortSignal;
}
