import type { HandlerResult, StagedHandler } from '@onnxserve/handler-kit';
import type { Item } from './item.js';

/** The last stage of a request: explain, the handler's postprocess, or the outputs as they are. */
export function postprocess(
  staged: StagedHandler<unknown, unknown, unknown>,
  outputs: unknown,
  item: Item,
): HandlerResult | Promise<HandlerResult> {
  if (item.wire.kind === 'explain') return staged.explain!(outputs, item.ctx);
  return staged.postprocess === undefined ? (outputs as HandlerResult) : staged.postprocess(outputs, item.ctx);
}

export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
