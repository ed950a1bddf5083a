import type { BatchContext } from '../context.js';
import { encodeChunk } from '../result.js';
import type { SequenceStates } from '../sequence-states.js';
import type { StepHandler, StepItem, StepResult } from '../step.js';
import type { Item } from './item.js';

interface Running extends StepItem<unknown, unknown> {
  readonly item: Item;
  steps: number;
}

/** The first requests that may run together: one of each sequence, none before an earlier one of its own. */
export function nextBatch(items: readonly Item[], size: number, running: readonly Item[] = []): Item[] {
  const taken = new Set(running.map((item) => item.request.sequence?.id));
  const batch: Item[] = [];
  for (const item of items) {
    if (batch.length >= size) break;
    const id = item.request.sequence?.id;
    if (id !== undefined && taken.has(id)) continue;
    taken.add(id);
    batch.push(item);
  }
  return batch;
}

/** Begins the sequences of those that are the first of theirs. */
export async function enterSequences(batch: readonly Item[], sequences: SequenceStates): Promise<void> {
  for (const item of batch) {
    const { sequence } = item.request;
    if (sequence === undefined) continue;
    if (sequence.start) await sequences.end(sequence.id, 'restart');
    await catching(item, async () => await sequences.enter(sequence.id, sequence));
  }
}

/** Runs a continuous batch until nothing is left to join it. */
export async function runSteps(
  handler: StepHandler<unknown, unknown>,
  items: readonly Item[],
  size: number,
  shared: BatchContext<unknown>,
  sequences: SequenceStates,
  answered: (item: Item) => Promise<void>,
): Promise<void> {
  let waiting = [...items];
  const running: Running[] = [];
  const leave = async (it: Running): Promise<void> => {
    running.splice(running.indexOf(it), 1);
    await handler.release?.(it.job, it.ctx);
    await answered(it.item);
    await ended(it.item, sequences);
  };
  while (waiting.length + running.length > 0) {
    const joining = nextBatch(
      waiting,
      size - running.length,
      running.map((it) => it.item),
    );
    waiting = waiting.filter((item) => !joining.includes(item));
    await enterSequences(joining, sequences);
    for (const item of joining) {
      await catching(item, async () => {
        if (item.error) return;
        const job: unknown = handler.preprocess ? await handler.preprocess(item.request, item.ctx) : item.request;
        running.push({ item, request: item.request, ctx: item.ctx, job, steps: 0 });
      });
      if (!item.error) continue;
      await answered(item);
      await ended(item, sequences);
    }
    if (running.length === 0) continue;
    const batch = [...running];
    const results = await stepOnce(handler, batch, shared);
    for (const [index, it] of batch.entries()) {
      it.steps++;
      if (apply(it.item, results[index]!)) await leave(it);
    }
  }
}

async function stepOnce(
  handler: StepHandler<unknown, unknown>,
  batch: readonly Running[],
  shared: BatchContext<unknown>,
): Promise<ReadonlyArray<StepResult | Error>> {
  try {
    const results = await handler.step(batch, shared);
    if (Array.isArray(results) && results.length === batch.length) return results as ReadonlyArray<StepResult | Error>;
    const got = Array.isArray(results) ? String(results.length) : `${typeof results} instead of an array`;
    throw new Error(`step() must return one result for each request: expected ${batch.length}, got ${got}`);
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
    return batch.map(() => error);
  }
}

/** @returns true when the request is over */
function apply(item: Item, result: StepResult | Error): boolean {
  try {
    if (result instanceof Error) throw result;
    const last = result.more ? result.chunk : result.result;
    const streams = result.more || item.chunks !== undefined;
    if (streams && last !== undefined) (item.chunks ??= []).push(encodeChunk(last));
    if (result.more) return false;
    if (item.chunks !== undefined) item.result = stream(item.chunks);
    else item.result = result.result === undefined ? new Uint8Array() : result.result;
  } catch (thrown) {
    item.error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
  }
  return true;
}

async function* stream(chunks: readonly unknown[]): AsyncGenerator {
  for (const chunk of chunks) yield await Promise.resolve(chunk);
}

async function ended({ request: { sequence } }: Item, sequences: SequenceStates): Promise<void> {
  if (sequence?.end) await sequences.end(sequence.id, 'end');
}

async function catching(item: Item, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    item.error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
  }
}
