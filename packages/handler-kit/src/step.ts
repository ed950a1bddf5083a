import type { BatchContext, HandlerContext } from './context.js';
import type { Chunk, HandlerLife, HandlerResult, MaybePromise } from './handler.js';
import type { InferenceRequest } from './request.js';

/** What a step did for one request. Make it with `more` or `done`. */
export type StepResult =
  /** It goes on; `chunk` is streamed to its client now. The first chunk sends the status and headers of the answer. */
  | { readonly more: true; readonly chunk: Chunk | undefined }
  /** It leaves the batch. `result` is its answer, or the last chunk of a streamed one. */
  | { readonly more: false; readonly result: HandlerResult | undefined };

/** The request goes on in the next step. @param chunk what its client gets now; nothing when left out */
export function more(chunk?: Chunk): StepResult {
  return { more: true, chunk };
}

/** The request is over. @param result its answer, or the last chunk when chunks were streamed; left out: nothing more */
export function done(result?: HandlerResult): StepResult {
  return { more: false, result };
}

/** One request of a running batch. */
export interface StepItem<State, Job, SequenceState = unknown> {
  readonly request: InferenceRequest;
  readonly ctx: HandlerContext<State, SequenceState>;
  /** What `preprocess` returned, or what was put here since. */
  job: Job;
  /** Steps that the request has been in before this one. */
  readonly steps: number;
}

/**
 * Handler of a continuous batch: requests join it between steps, up to `batchSize` of them, and each leaves when it is done.
 * What a request needs from step to step is its `job`.
 */
export interface StepHandler<State, Job, SequenceState = unknown> extends HandlerLife<State, SequenceState> {
  /** One request to its job, while the batch goes on without it. Without it the job is the request itself. */
  preprocess?(request: InferenceRequest, ctx: HandlerContext<State, SequenceState>): MaybePromise<Job>;
  /**
   * One step of every request in the batch; returns one result for each, in order. An `Error` in the place of a result fails that
   * request alone; what is thrown fails all of them, since nobody knows what state it left them in.
   */
  step(
    batch: ReadonlyArray<StepItem<State, Job, SequenceState>>,
    ctx: BatchContext<State>,
  ): MaybePromise<ReadonlyArray<StepResult | Error>>;
  /** When a request has left the batch, for whatever reason: done, failed, its client gone, its time over. Frees what its job holds. */
  release?(job: Job, ctx: HandlerContext<State, SequenceState>): MaybePromise<void>;
}
