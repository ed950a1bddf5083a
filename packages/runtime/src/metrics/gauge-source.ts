import type { MetricRegistry } from './registry.js';

/** What one version of a model looks like now. */
export interface ModelGauges {
  readonly model: string;
  readonly version: string;
  /** Requests that wait. */
  readonly queueDepth: number;
  /** Of the oldest waiting request; 0 when none waits. */
  readonly oldestAgeSeconds: number;
  /** Requests that workers hold. */
  readonly inFlight: number;
  /** Sequences that have a place; undefined: the model has none. */
  readonly sequences?: number | undefined;
  /** Workers by state. */
  readonly workers: Readonly<Record<string, number>>;
}

/** Asked at each scrape: a gauge that is pulled cannot drift from the truth. */
export type GaugeSource = () => Iterable<ModelGauges>;

export function pullGauges(registry: MetricRegistry, source: GaugeSource): void {
  const { queueDepth, queueOldestAge, inFlight, sequences, workers } = registry.built;
  for (const family of [queueDepth, queueOldestAge, inFlight, sequences, workers]) family.clear();
  for (const now of source()) {
    queueDepth.series(now.model, now.version).set(now.queueDepth);
    queueOldestAge.series(now.model, now.version).set(now.oldestAgeSeconds);
    inFlight.series(now.model, now.version).set(now.inFlight);
    if (now.sequences !== undefined) sequences.series(now.model, now.version).set(now.sequences);
    for (const [state, count] of Object.entries(now.workers)) workers.series(now.model, now.version, state).set(count);
  }
}
