import { WorkflowSpecError } from './spec-error.js';

/**
 * Orders the nodes so that each comes after those it waits for.
 * @returns the names, the one where requests begin first
 * @throws {WorkflowSpecError} naming the nodes of a cycle, or the several nodes that nothing leads to
 */
export function orderOf(dag: ReadonlyMap<string, readonly string[]>, file: string): string[] {
  const waiting = new Map<string, number>();
  for (const [name, followers] of dag) {
    waiting.set(name, waiting.get(name) ?? 0);
    for (const follower of followers) waiting.set(follower, (waiting.get(follower) ?? 0) + 1);
  }
  if (waiting.size === 0) throw new WorkflowSpecError('dag', `${file}: the dag has no nodes`);
  const starts = [...waiting].filter(([, count]) => count === 0).map(([name]) => name);
  const order: string[] = [];
  const ready = [...starts];
  for (let name = ready.shift(); name !== undefined; name = ready.shift()) {
    order.push(name);
    for (const follower of dag.get(name) ?? []) {
      const left = waiting.get(follower)! - 1;
      waiting.set(follower, left);
      if (left === 0) ready.push(follower);
    }
  }
  if (order.length < waiting.size) {
    const done = new Set(order);
    const cycle = [...waiting.keys()].filter((name) => !done.has(name));
    throw new WorkflowSpecError('dag', `${file}: the dag has a cycle through ${cycle.join(', ')}`);
  }
  if (starts.length > 1) {
    throw new WorkflowSpecError('dag', `${file}: requests can begin at one node only, and nothing leads to ${starts.join(', ')}`);
  }
  return order;
}

/** What each node waits for, in the order of the dag. */
export function upstreamOf(
  dag: ReadonlyMap<string, readonly string[]>,
  nodes: readonly string[],
): Map<string, readonly string[]> {
  const upstream = new Map(nodes.map((name): [string, string[]] => [name, []]));
  for (const [name, followers] of dag) for (const follower of followers) upstream.get(follower)?.push(name);
  return upstream;
}
