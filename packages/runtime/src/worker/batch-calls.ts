import type { BatchContext, HandlerResult, StagedHandler, WholeBatchHandler } from '@onnxserve/handler-kit';
import { WrongLengthError } from './errors.js';
import type { Item } from './item.js';

/** Told of each item what the handler made of it. */
export interface CallListener<T> {
  done(item: Item, output: T): void;
  failed(item: Item, error: unknown): void;
}

/** Runs a handler's own inference. Never rejects; a call that throws is repeated item by item. */
export async function customInference(
  model: string,
  handler: StagedHandler<unknown, unknown, unknown>,
  context: BatchContext<unknown>,
  items: readonly Item[],
  listener: CallListener<unknown>,
): Promise<void> {
  try {
    const outputs: unknown = await handler.inference!(
      items.map((item) => item.features),
      context,
    );
    if (!Array.isArray(outputs) || outputs.length !== items.length)
      throw new WrongLengthError(model, 'inference', items.length, outputs);
    share(items, outputs, listener);
  } catch (error) {
    // Whose fault it was shows when each runs alone; a mate's error must not reach the innocent.
    if (items.length > 1 && !(error instanceof WrongLengthError)) {
      for (const item of items) await customInference(model, handler, context, [item], listener);
      return;
    }
    for (const item of items) listener.failed(item, error);
  }
}

/** Hands a whole batch to the handler. Never rejects; what is thrown is the answer of all of them. */
export async function handleBatch(
  model: string,
  handler: WholeBatchHandler<unknown>,
  context: BatchContext<unknown>,
  items: readonly Item[],
  listener: CallListener<HandlerResult>,
): Promise<void> {
  try {
    const results: unknown = await handler.handle(
      items.map(({ request, ctx }) => ({ request, ctx })),
      context,
    );
    if (!Array.isArray(results) || results.length !== items.length)
      throw new WrongLengthError(model, 'handle', items.length, results);
    share(items, results as HandlerResult[], listener);
  } catch (error) {
    for (const item of items) {
      item.lap('inference');
      listener.failed(item, error);
    }
  }
}

/** An error in an item's place is its answer alone. */
function share<T>(items: readonly Item[], results: readonly T[], listener: CallListener<T>): void {
  items.forEach((item, index) => {
    item.lap('inference');
    item.batchSize = items.length;
    const result = results[index]!;
    if (result instanceof Error) listener.failed(item, result);
    else listener.done(item, result);
  });
}
