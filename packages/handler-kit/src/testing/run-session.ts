import { collate, rowsOf, shapeKey, split } from '../collate.js';
import type { SessionHandle } from '../context.js';
import { type NamedTensors, Tensor } from '../tensor.js';
import { checkFeeds } from '../onnx/check-feeds.js';

interface Runnable {
  features?: unknown;
  outputs?: unknown;
  error?: Error;
}

/** Runs prepared requests grouped by shape; a run that fails is repeated one by one. Errors are left in the items. */
export async function runSession(session: SessionHandle, items: readonly Runnable[]): Promise<void> {
  const groups = new Map<string, Runnable[]>();
  for (const item of items) {
    try {
      const features = namedTensors(item.features, session);
      const batched = session.inputs.every(({ shape }) => shape.length > 0 && (typeof shape[0] === 'string' || shape[0]! < 0));
      checkFeeds(features, session.inputs);
      const key = batched ? shapeKey(features) : `alone ${groups.size}`;
      groups.set(key, [...(groups.get(key) ?? []), item]);
    } catch (error) {
      item.error = error as Error;
    }
  }
  for (const group of groups.values()) await runGroup(session, group);
}

async function runGroup(session: SessionHandle, group: readonly Runnable[]): Promise<void> {
  try {
    const features = group.map((item) => item.features as NamedTensors);
    const rows = group.length === 1 ? [1] : features.map(rowsOf);
    const outputs = split(await session.run(collate(features)), rows);
    for (const [index, item] of group.entries()) item.outputs = outputs[index];
  } catch (error) {
    if (group.length === 1) group[0]!.error = error as Error;
    else for (const item of group) await runGroup(session, [item]);
  }
}

function namedTensors(value: unknown, session: SessionHandle): NamedTensors {
  const tensors = typeof value === 'object' && value !== null ? Object.values(value) : [];
  if (tensors.length > 0 && tensors.every((it) => it instanceof Tensor)) return value as NamedTensors;
  const wanted = session.inputs.map((input) => `"${input.name}"`).join(', ');
  throw new TypeError(`preprocess must return an object of tensors by input name (${wanted})`);
}
