/** What the decision needs to know of one request. */
export interface StepView {
  /** Nobody waits for its answer any more. */
  readonly gone: boolean;
  /** Its client has not taken yet what was streamed to it. */
  readonly held: boolean;
}

export interface StepPlan<T> {
  /** Have left the batch. */
  readonly leave: readonly T[];
  /** How many of those that are ready join it, the first ones first. */
  readonly join: number;
  /** The batch from now on. */
  readonly running: readonly T[];
  /** Those of it that take the next step. */
  readonly step: readonly T[];
}

/**
 * Who is in the next step of a continuous batch. Places are freed by those that left and filled by those that are ready; a request
 * whose client is slow keeps its place and pauses, so that the others go on.
 */
export function planStep<T extends StepView>(running: readonly T[], ready: readonly T[], batchSize: number): StepPlan<T> {
  const leave = running.filter((it) => it.gone);
  const stay = running.filter((it) => !it.gone);
  const join = Math.min(ready.length, Math.max(0, batchSize - stay.length));
  const next = [...stay, ...ready.slice(0, join)];
  return { leave, join, running: next, step: next.filter((it) => !it.held && !it.gone) };
}
