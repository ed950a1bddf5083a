import type { ErrorCode } from '../domain/errors.js';
import type { BatchDispatched, BatchRan, RequestEnded, WorkerChanged } from '../domain/events.js';
import type { Distribution, Scalar } from './family.js';
import { knownReasons, releases, stages } from './names.js';
import type { MetricRegistry } from './registry.js';

type Stage = (typeof stages)[number];

/** Failures that alerts are written for; they exist at zero from registration on, so that the first one is seen as a change. */
const awaited: ReadonlyArray<readonly [ErrorCode, string]> = [
  ['BAD_REQUEST', 'bad-input'],
  ['QUEUE_FULL', 'queue-full'],
  ['CANCELLED', 'cancelled'],
  ['DEADLINE_EXCEEDED', 'queue-timeout'],
  ['RESPONSE_TIMEOUT', 'response-timeout'],
  ['HANDLER_FAILED', 'handler-error'],
  ['PREDICTION_ERROR', 'handler-error'],
  ['WORKER_DIED', 'worker-died'],
  ['OUT_OF_MEMORY', 'device-out-of-memory'],
];

export function boundedReason(reason: string | undefined): string {
  if (reason === undefined) return '';
  return knownReasons.has(reason) ? reason : 'other';
}

/** TorchServe's sums for one value of its model_version label. */
interface VersionSums {
  readonly requests: Scalar;
  readonly latency: Scalar;
  readonly queue: Scalar;
}

/** Every series of one version of a model, bound once so that a request costs additions only. */
export class ModelSeries {
  readonly #registry: MetricRegistry;
  readonly #undo: Array<() => void> = [];
  readonly #outcomes = new Map<string, Scalar>();
  readonly #duration: Distribution;
  readonly #stages: Readonly<Record<Stage, Distribution>>;
  readonly #responseBytes: Distribution;
  readonly #batchSize: Distribution;
  readonly #batchRows: Distribution;
  readonly #loads: Distribution;
  readonly #restarts: Scalar;
  /** Output of workers that was not logged, in bytes. */
  readonly logDropped: Scalar;
  readonly #releases: Readonly<Record<BatchDispatched['release'], Scalar>>;
  readonly #named: VersionSums;
  readonly #pids = new Map<string, number>();

  /** @param unnamed the sums of requests that named no version, which all versions of the model share */
  constructor(
    registry: MetricRegistry,
    readonly model: string,
    readonly version: string,
    private readonly hostname: string,
    private readonly unnamed: VersionSums,
  ) {
    this.#registry = registry;
    const { built } = registry;
    const own = [model, version] as const;
    const bind = <Series>(
      family: { series(...v: string[]): Series; remove(...v: string[]): void },
      ...values: string[]
    ): Series => {
      this.#undo.push(() => family.remove(...values));
      return family.series(...values);
    };
    this.#duration = bind(built.requestDuration, ...own);
    this.#stages = Object.fromEntries(stages.map((stage) => [stage, bind(built.stageDuration, ...own, stage)])) as Record<
      Stage,
      Distribution
    >;
    this.#responseBytes = bind(built.responseBytes, ...own);
    this.#batchSize = bind(built.batchSize, ...own);
    this.#batchRows = bind(built.batchRows, ...own);
    this.#loads = bind(built.modelLoad, ...own);
    this.#restarts = bind(built.workerRestarts, ...own);
    this.logDropped = bind(built.workerLogDropped, ...own);
    this.#releases = Object.fromEntries(
      releases.map((release) => [release, bind(built.batchRelease, ...own, release)]),
    ) as Record<BatchDispatched['release'], Scalar>;
    this.#named = versionSums(registry, model, version, hostname);
    this.#undo.push(() => removeVersionSums(registry, model, version, hostname));
    this.#outcome('ok', undefined);
    for (const [code, reason] of awaited) this.#outcome(code, reason);
  }

  ended(event: RequestEnded): void {
    this.#outcome(event.outcome, event.reason).add(1);
    const { stages: times, totalNs } = event;
    const total = totalNs / 1e9;
    this.#duration.observe(total);
    const sums = event.requestedVersion === undefined ? this.unnamed : this.#named;
    sums.requests.add(1);
    sums.latency.add(totalNs / 1e3);
    if (event.outcome === 'ok') this.#responseBytes.observe(event.responseBytes);
    if (times === undefined) return;
    sums.queue.add(times.queue / 1e3);
    // A failed request has zeros for the stages it never reached: they are no measurements.
    const all = event.outcome === 'ok';
    for (const stage of stages) if (all || times[stage] > 0) this.#stages[stage].observe(times[stage] / 1e9);
  }

  dispatched(event: BatchDispatched): void {
    this.#batchSize.observe(event.items);
    this.#releases[event.release].add(1);
  }

  ran(event: BatchRan): void {
    this.#batchRows.observe(event.rows);
  }

  workerChanged({ workerId, pid, state, loadSeconds }: WorkerChanged): void {
    const loadTime = this.#registry.built.WorkerLoadTime;
    const labels = [`W-${workerId}-${this.model}_${this.version}`, 'Host', this.hostname];
    if (pid !== undefined) {
      const before = this.#pids.get(workerId);
      if (before !== undefined && before !== pid) this.#restarts.add(1);
      this.#pids.set(workerId, pid);
    }
    if (loadSeconds !== undefined) {
      this.#loads.observe(loadSeconds);
      loadTime.series(...labels).set(Math.round(loadSeconds * 1000));
    }
    // A worker that was scaled away never comes back under its id.
    if (state === 'stopped') {
      this.#pids.delete(workerId);
      loadTime.remove(...labels);
    }
  }

  /** Takes the series off the endpoint. */
  remove(): void {
    for (const undo of this.#undo) undo();
    for (const workerId of this.#pids.keys())
      this.#registry.built.WorkerLoadTime.remove(`W-${workerId}-${this.model}_${this.version}`, 'Host', this.hostname);
  }

  #outcome(outcome: 'ok' | ErrorCode, reason: string | undefined): Scalar {
    const bounded = boundedReason(reason);
    const key = bounded === '' ? outcome : `${outcome} ${bounded}`;
    const found = this.#outcomes.get(key);
    if (found !== undefined) return found;
    const values = [this.model, this.version, outcome, bounded];
    const series = this.#registry.built.requests.series(...values);
    this.#undo.push(() => this.#registry.built.requests.remove(...values));
    this.#outcomes.set(key, series);
    return series;
  }
}

export function versionSums(registry: MetricRegistry, model: string, version: string, hostname: string): VersionSums {
  const { inferenceRequests, inferenceLatency, queueLatency } = registry.built;
  return {
    requests: inferenceRequests.series(model, version, hostname),
    latency: inferenceLatency.series(model, version, hostname),
    queue: queueLatency.series(model, version, hostname),
  };
}

export function removeVersionSums(registry: MetricRegistry, model: string, version: string, hostname: string): void {
  const { inferenceRequests, inferenceLatency, queueLatency } = registry.built;
  for (const family of [inferenceRequests, inferenceLatency, queueLatency]) family.remove(model, version, hostname);
}
