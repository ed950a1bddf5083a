import type { BatchContext, HandlerContext, LoadContext, SequenceContext } from './context.js';
import type { PadValues } from './pad.js';
import type { InferenceRequest } from './request.js';
import type { SequenceEndReason } from './sequence.js';
import type { StepHandler } from './step.js';
import type { NamedTensors } from './tensor.js';

/** A body with its own status and headers. */
export interface HandlerResponse {
  /** Text, bytes, JSON, or an async iterable that is streamed. */
  readonly body: string | Uint8Array | object | null;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Chunk = string | Uint8Array | object;

/**
 * What postprocess may return: text, bytes, anything JSON can hold (BigInt included), `respond(...)`,
 * a web `Response`, or an async iterable whose chunks are streamed as they come.
 */
export type HandlerResult = string | number | boolean | bigint | null | Uint8Array | object | AsyncIterable<Chunk>;

export type MaybePromise<T> = T | Promise<T>;

/** What every kind of handler may have. `SequenceState` is the type of `ctx.sequence.state`. */
export interface HandlerLife<State, SequenceState> {
  /** Once per worker, before it takes requests; the result is `ctx.state`. */
  load?(ctx: LoadContext): MaybePromise<State>;
  /** Called when the worker stops in good order. */
  unload?(state: State): MaybePromise<void>;
  /** Before the first request of a sequence; the result is `ctx.sequence.state`. Models with `sequenceBatching` only. */
  startSequence?(ctx: SequenceContext<State>): MaybePromise<SequenceState>;
  /** When a sequence has ended that `startSequence` began; frees what its state holds. */
  endSequence?(state: SequenceState, reason: SequenceEndReason, ctx: SequenceContext<State>): MaybePromise<void>;
  /** `customizedMetadata` of describe. */
  describe?(ctx: BatchContext<State>): MaybePromise<object>;
}

/** One request of a whole-batch `handle` call, with the controls of its own answer. */
export interface BatchItem<State, SequenceState = unknown> {
  readonly request: InferenceRequest;
  readonly ctx: HandlerContext<State, SequenceState>;
}

/** Handler of three stages. Each stage may be left out; the defaults speak tensors. */
export interface StagedHandler<State, Features, Outputs, SequenceState = unknown> extends HandlerLife<State, SequenceState> {
  /**
   * One request to named tensors with a leading batch axis (or whatever `inference` takes). Without it the request's own
   * tensors are used; a handler with its own `inference` gets the request itself.
   */
  preprocess?(request: InferenceRequest, ctx: HandlerContext<State, SequenceState>): MaybePromise<Features>;
  /**
   * Inputs that may be filled up, so that requests of different lengths share a run where that pays: along every axis but the first
   * whose size the model leaves open. What a model returns along an axis of the same name is cut back to each request's own length.
   * Say so only of inputs whose filling the model ignores, such as token ids beside an attention mask. Only for the default run.
   */
  pad?: PadValues | ((state: State) => PadValues);
  /**
   * Replaces the default run. Gets the features of every request of the batch, returns one output each, in order;
   * an `Error` in the place of an output fails that request alone.
   */
  inference?(batch: readonly Features[], ctx: BatchContext<State>): MaybePromise<ReadonlyArray<Outputs | Error>>;
  /** This request's rows of the outputs to its answer. Without it tensors are answered as JSON, other outputs as they are. */
  postprocess?(outputs: Exclude<Outputs, Error>, ctx: HandlerContext<State, SequenceState>): MaybePromise<HandlerResult>;
  /** Answers `explanations` requests; without it they are refused with 501. */
  explain?(outputs: Exclude<Outputs, Error>, ctx: HandlerContext<State, SequenceState>): MaybePromise<HandlerResult>;
}

/** Handler that does everything itself: a list of requests in, a list of as many results out. */
export interface WholeBatchHandler<State, SequenceState = unknown> extends HandlerLife<State, SequenceState> {
  /** Returns one result for each request, in order; an `Error` in the place of a result fails that request alone. */
  handle(
    batch: ReadonlyArray<BatchItem<State, SequenceState>>,
    ctx: BatchContext<State>,
  ): MaybePromise<ReadonlyArray<HandlerResult | Error>>;
}

/* eslint-disable typescript/no-explicit-any */
export type AnyHandler = StagedHandler<any, any, any, any> | WholeBatchHandler<any, any> | StepHandler<any, any, any>;
/* eslint-enable typescript/no-explicit-any */

/**
 * Declares a handler. The types flow along the chain: what `load` returns is `ctx.state`, what `preprocess` returns
 * is what `inference` gets, what `inference` returns (named tensors by default) is what `postprocess` gets. What `startSequence`
 * returns is `ctx.sequence.state`.
 *
 * @example
 * export default defineHandler({
 *   async load(ctx) { return { labels: await ctx.model.json<string[]>('labels.json') }; },
 *   preprocess(request) { return { input: decode(request.body()) }; },
 *   postprocess(outputs, ctx) { return topK(softmax(outputs.logits), 5, ctx.state.labels); },
 * });
 */
export function defineHandler<State = undefined, Features extends NamedTensors = NamedTensors, SequenceState = undefined>(
  handler: StagedHandler<State, Features, NamedTensors, SequenceState> & {
    inference?: undefined;
    handle?: undefined;
    step?: undefined;
  },
): StagedHandler<State, Features, NamedTensors, SequenceState>;
export function defineHandler<State = undefined, Features = InferenceRequest, Outputs = unknown, SequenceState = undefined>(
  handler: StagedHandler<State, Features, Outputs, SequenceState> & {
    inference: NonNullable<StagedHandler<State, Features, Outputs, SequenceState>['inference']>;
    handle?: undefined;
    step?: undefined;
  },
): StagedHandler<State, Features, Outputs, SequenceState>;
export function defineHandler<State = undefined, Job = InferenceRequest, SequenceState = undefined>(
  handler: StepHandler<State, Job, SequenceState> & { inference?: undefined; handle?: undefined; postprocess?: undefined },
): StepHandler<State, Job, SequenceState>;
export function defineHandler<State = undefined, SequenceState = undefined>(
  handler: WholeBatchHandler<State, SequenceState> & { step?: undefined },
): WholeBatchHandler<State, SequenceState>;
export function defineHandler(handler: AnyHandler): AnyHandler {
  return handler;
}

/**
 * A node of a workflow that is no model, exported under the node's name. The request is the client's at the node where requests begin;
 * else its body is the output of the node before, or a form with a part for each of several nodes, by their names.
 */
export type WorkflowFunction = (request: InferenceRequest, ctx: HandlerContext<undefined>) => MaybePromise<HandlerResult>;

/**
 * Gives a workflow's function its types.
 *
 * @example
 * export const join = workflowFunction((request) => ({ cat: request.part('cat')?.data, dog: request.part('dog')?.data }));
 */
export function workflowFunction(call: WorkflowFunction): WorkflowFunction {
  return call;
}
