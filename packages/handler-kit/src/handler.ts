import type { BatchContext, HandlerContext, LoadContext } from './context.js';
import type { PadValues } from './pad.js';
import type { InferenceRequest } from './request.js';
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

type MaybePromise<T> = T | Promise<T>;

/** One request of a whole-batch `handle` call, with the controls of its own answer. */
export interface BatchItem<State> {
  readonly request: InferenceRequest;
  readonly ctx: HandlerContext<State>;
}

/** Handler of three stages. Each stage may be left out; the defaults speak tensors. */
export interface StagedHandler<State, Features, Outputs> {
  /** Once per worker, before it takes requests; the result is `ctx.state`. */
  load?(ctx: LoadContext): MaybePromise<State>;
  /** Called when the worker stops in good order. */
  unload?(state: State): MaybePromise<void>;
  /**
   * One request to named tensors with a leading batch axis (or whatever `inference` takes). Without it the request's own
   * tensors are used; a handler with its own `inference` gets the request itself.
   */
  preprocess?(request: InferenceRequest, ctx: HandlerContext<State>): MaybePromise<Features>;
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
  postprocess?(outputs: Exclude<Outputs, Error>, ctx: HandlerContext<State>): MaybePromise<HandlerResult>;
  /** Answers `explanations` requests; without it they are refused with 501. */
  explain?(outputs: Exclude<Outputs, Error>, ctx: HandlerContext<State>): MaybePromise<HandlerResult>;
  /** `customizedMetadata` of describe. */
  describe?(ctx: BatchContext<State>): MaybePromise<object>;
}

/** Handler that does everything itself: a list of requests in, a list of as many results out. */
export interface WholeBatchHandler<State> {
  load?(ctx: LoadContext): MaybePromise<State>;
  unload?(state: State): MaybePromise<void>;
  /** Returns one result for each request, in order; an `Error` in the place of a result fails that request alone. */
  handle(batch: ReadonlyArray<BatchItem<State>>, ctx: BatchContext<State>): MaybePromise<ReadonlyArray<HandlerResult | Error>>;
  describe?(ctx: BatchContext<State>): MaybePromise<object>;
}

// eslint-disable-next-line typescript/no-explicit-any
export type AnyHandler = StagedHandler<any, any, any> | WholeBatchHandler<any>;

/**
 * Declares a handler. The types flow along the chain: what `load` returns is `ctx.state`, what `preprocess` returns
 * is what `inference` gets, what `inference` returns (named tensors by default) is what `postprocess` gets.
 *
 * @example
 * export default defineHandler({
 *   async load(ctx) { return { labels: await ctx.model.json<string[]>('labels.json') }; },
 *   preprocess(request) { return { input: decode(request.body()) }; },
 *   postprocess(outputs, ctx) { return topK(softmax(outputs.logits), 5, ctx.state.labels); },
 * });
 */
export function defineHandler<State = undefined, Features extends NamedTensors = NamedTensors>(
  handler: StagedHandler<State, Features, NamedTensors> & { inference?: undefined; handle?: undefined },
): StagedHandler<State, Features, NamedTensors>;
export function defineHandler<State = undefined, Features = InferenceRequest, Outputs = unknown>(
  handler: StagedHandler<State, Features, Outputs> & {
    inference: NonNullable<StagedHandler<State, Features, Outputs>['inference']>;
    handle?: undefined;
  },
): StagedHandler<State, Features, Outputs>;
export function defineHandler<State = undefined>(handler: WholeBatchHandler<State>): WholeBatchHandler<State>;
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
