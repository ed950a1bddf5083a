import type { BatchContext, LoadContext } from '../context.js';
import { createRequest } from '../create-request.js';
import { PredictionError } from '../errors.js';
import type { AnyHandler, StagedHandler, WholeBatchHandler } from '../handler.js';
import { SequenceStates } from '../sequence-states.js';
import type { StepHandler } from '../step.js';
import { tensorPostprocess, tensorPreprocess } from '../handlers/tensor.js';
import { RecordedControls } from '../response-controls.js';
import { encodeResult } from '../result.js';
import { runSession } from './run-session.js';
import type { Item } from './item.js';
import { enterSequences, nextBatch, runSteps } from './run-steps.js';
import { type Payload, toRequestInit } from './payload.js';
import { type ModelOptions, type RecordedLog, type RecordedMetric, requestContext, testContext } from './test-context.js';

export interface RunOptions extends ModelOptions {
  /** Requests that share a run; default all of them. */
  readonly batchSize?: number;
}

/** The answer to one request, as a client would get it. */
export interface TestAnswer {
  readonly ok: true;
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The pieces of a streamed answer, in order; undefined for any other. */
  readonly chunks: readonly Uint8Array[] | undefined;
  text(): string;
  json<T = unknown>(): T;
}

/** A request that failed. An error that is no `PredictionError` is a bug of the handler; the server answers 500 and hides it. */
export interface TestFailure {
  readonly ok: false;
  readonly status: number;
  readonly error: Error;
}

export type TestResult = TestAnswer | TestFailure;

/** Results in the order of the payloads, and what the handler logged and measured. */
export type TestResults = TestResult[] & { readonly logs: RecordedLog[]; readonly metrics: RecordedMetric[] };

/**
 * Runs a handler in memory: load, the requests in batches as the server forms them, unload. A request that fails does
 * not touch the others; requests whose tensors differ in shape run apart. A batch holds one request of each sequence, in order.
 * @throws what `load`, `unload` and `endSequence` throw
 */
export async function runHandler(
  handler: AnyHandler,
  payloads: readonly Payload[],
  options: RunOptions = {},
): Promise<TestResults> {
  const { context, logs, metrics } = testContext(options);
  const state: unknown = await handler.load?.(context);
  const shared: BatchContext<unknown> = { ...context, state };
  const errors: unknown[] = [];
  const sequences = new SequenceStates(handler, shared, (error) => errors.push(error));
  const items = payloads.map((payload, index) => newItem(context, state, payload, index + 1, sequences));
  const answers = new Map<Item, TestResult>();
  // At once, as the server does: what a result refers to may change later.
  const answered = async (item: Item): Promise<void> => void answers.set(item, await finish(item));
  const size = Math.max(1, options.batchSize ?? items.length);
  if ('step' in handler && handler.step !== undefined) {
    await runSteps(handler as StepHandler<unknown, unknown>, items, size, shared, sequences, answered);
  } else {
    for (let left: readonly Item[] = items; left.length > 0;) {
      const batch = nextBatch(left, size);
      left = left.filter((item) => !batch.includes(item));
      await enterSequences(batch, sequences);
      const entered = batch.filter((item) => !item.error);
      if (isWhole(handler)) await handleBatch(handler, entered, shared);
      else await runStages(handler, entered, shared);
      for (const item of batch) await answered(item);
      for (const item of batch) if (item.request.sequence?.end) await sequences.end(item.request.sequence.id, 'end');
    }
  }
  const results = items.map((item) => answers.get(item)!);
  await sequences.endAll('stop');
  if (errors.length > 0) throw errors[0];
  await handler.unload?.(state);
  // Not enumerable, so that results compare as the plain array they are.
  return Object.defineProperties(results, { logs: { value: logs }, metrics: { value: metrics } }) as TestResults;
}

function newItem(context: LoadContext, state: unknown, payload: Payload, number: number, sequences: SequenceStates): Item {
  const request = createRequest(toRequestInit(payload, number));
  const response = new RecordedControls();
  return { request, response, ctx: requestContext(context, state, request, response, sequences) };
}

function isWhole(handler: AnyHandler): handler is WholeBatchHandler<unknown> {
  return 'handle' in handler && handler.handle !== undefined;
}

async function handleBatch(
  handler: WholeBatchHandler<unknown>,
  batch: readonly Item[],
  shared: BatchContext<unknown>,
): Promise<void> {
  await together(batch, async () => {
    const results: unknown = await handler.handle(batch, shared);
    assign(batch, results, 'handle', (item, result) => (item.result = result));
  });
}

async function runStages(
  handler: StagedHandler<unknown, unknown, unknown>,
  batch: readonly Item[],
  shared: BatchContext<unknown>,
): Promise<void> {
  const ownInference = handler.inference !== undefined;
  await each(batch, async (item) => {
    if (item.request.kind === 'explain' && !handler.explain) {
      throw new PredictionError(`model "${shared.model.name}" has no explain stage`, 501, { reason: 'not-implemented' });
    }
    if (handler.preprocess) item.features = await handler.preprocess(item.request, item.ctx);
    else item.features = ownInference || !shared.session ? item.request : tensorPreprocess(item.request, item.ctx);
  });
  const prepared = batch.filter((item) => !item.error);
  if (ownInference) await inferTogether(handler, prepared, shared);
  else if (shared.session) await runSession(shared.session, prepared);
  else for (const item of prepared) item.outputs = item.features;
  await each(batch, async (item) => {
    const outputs = item.outputs as never;
    if (item.request.kind === 'explain') item.result = await handler.explain!(outputs, item.ctx);
    else if (handler.postprocess) item.result = await handler.postprocess(outputs, item.ctx);
    else item.result = ownInference || !shared.session ? item.outputs : tensorPostprocess(outputs);
  });
}

/** An error that hits the whole batch is pinned on those that cause it: each is run alone. */
async function inferTogether(
  handler: StagedHandler<unknown, unknown, unknown>,
  batch: readonly Item[],
  shared: BatchContext<unknown>,
): Promise<void> {
  if (batch.length === 0) return;
  await together(batch, async () => {
    let outputs: unknown;
    try {
      outputs = await handler.inference!(
        batch.map((item) => item.features),
        shared,
      );
    } catch (error) {
      if (batch.length === 1) throw error;
      for (const item of batch) await inferTogether(handler, [item], shared);
      return;
    }
    assign(batch, outputs, 'inference', (item, output) => (item.outputs = output));
  });
}

function assign(batch: readonly Item[], values: unknown, stage: string, set: (item: Item, value: unknown) => void): void {
  if (!Array.isArray(values) || values.length !== batch.length) {
    const got = Array.isArray(values) ? String(values.length) : `${typeof values} instead of an array`;
    throw new Error(`${stage}() must return one result for each request: expected ${batch.length}, got ${got}`);
  }
  for (const [index, item] of batch.entries()) {
    const value: unknown = values[index];
    if (value instanceof Error) item.error = value;
    else set(item, value);
  }
}

async function each(batch: readonly Item[], stage: (item: Item) => Promise<void>): Promise<void> {
  await Promise.all(batch.filter((item) => !item.error).map((item) => together([item], () => stage(item))));
}

async function together(batch: readonly Item[], stage: () => Promise<void>): Promise<void> {
  try {
    await stage();
  } catch (thrown) {
    for (const item of batch) item.error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
  }
}

async function finish(item: Item): Promise<TestResult> {
  if (item.error) return failure(item.error);
  try {
    const { status, headers, body } = encodeResult(item.result, item.response.set);
    const chunks: Uint8Array[] = [];
    if (!(body instanceof Uint8Array)) for await (const chunk of body) chunks.push(chunk);
    const bytes = body instanceof Uint8Array ? body : Buffer.concat(chunks);
    const text = (): string => Buffer.from(bytes).toString('utf8');
    return {
      ok: true,
      status,
      headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
      body: bytes,
      chunks: body instanceof Uint8Array ? undefined : chunks,
      text,
      json: <T>() => JSON.parse(text()) as T,
    };
  } catch (error) {
    return failure(error as Error);
  }
}

function failure(error: Error): TestFailure {
  return { ok: false, status: error instanceof PredictionError ? error.status : 500, error };
}
