import {
  batchDispatched,
  batchRan,
  httpEnded,
  modelChanged,
  requestEnded,
  workerChanged,
  type ModelChanged,
  type RequestEnded,
} from '../domain/events.js';
import type { Scalar } from './family.js';
import { boundedReason, ModelSeries, removeVersionSums, versionSums } from './model-series.js';
import type { MetricRegistry } from './registry.js';

/** The gauges that TorchServe keeps for a model's name, whatever the version. */
interface ModelTimes {
  readonly versions: Map<string, ModelSeries>;
  handler: Scalar | undefined;
  prediction: Scalar | undefined;
}

/** Turns what the core publishes into values. Models are known from their registration to their unregistration only. */
export class Recorder {
  readonly #models = new Map<string, ModelTimes>();
  readonly #end: ReadonlyArray<() => void>;
  readonly #requests2xx: Scalar;
  readonly #requests4xx: Scalar;
  readonly #requests5xx: Scalar;
  #queueTime: Scalar | undefined;
  #threadTime: Scalar | undefined;

  /** @param onModelGone called when the last version of a model was unregistered */
  constructor(
    private readonly registry: MetricRegistry,
    private readonly hostname: string,
    private readonly onModelGone: (model: string) => void,
  ) {
    const { built } = registry;
    this.#requests2xx = built.Requests2XX.series('Host', hostname);
    this.#requests4xx = built.Requests4XX.series('Host', hostname);
    this.#requests5xx = built.Requests5XX.series('Host', hostname);
    this.#end = [
      modelChanged.subscribe((event) => this.#modelChanged(event)),
      requestEnded.subscribe((event) => this.#requestEnded(event)),
      batchDispatched.subscribe((event) => this.#find(event)?.dispatched(event)),
      batchRan.subscribe((event) => this.#find(event)?.ran(event)),
      workerChanged.subscribe((event) => this.#find(event)?.workerChanged(event)),
      httpEnded.subscribe(({ status }) => {
        if (status >= 200 && status < 300) this.#requests2xx.add(1);
        else if (status >= 400 && status < 500) this.#requests4xx.add(1);
        else this.#requests5xx.add(1);
      }),
    ];
  }

  knows(model: string, version: string): boolean {
    return this.#find({ model, version }) !== undefined;
  }
  logDropped(model: string, version: string, bytes: number): void {
    this.#find({ model, version })?.logDropped.add(bytes);
  }

  close(): void {
    for (const end of this.#end) end();
  }

  #find(event: { readonly model: string; readonly version: string }): ModelSeries | undefined {
    return this.#models.get(event.model)?.versions.get(event.version);
  }

  #modelChanged({ model, version, change }: ModelChanged): void {
    const { registry, hostname } = this;
    switch (change) {
      case 'registered': {
        let known = this.#models.get(model);
        if (known === undefined) {
          known = { versions: new Map(), handler: undefined, prediction: undefined };
          this.#models.set(model, known);
        }
        if (known.versions.has(version)) return;
        const unnamed = versionSums(registry, model, 'default', hostname);
        known.versions.set(version, new ModelSeries(registry, model, version, hostname, unnamed));
        return;
      }
      case 'unregistered': {
        const known = this.#models.get(model);
        known?.versions.get(version)?.remove();
        known?.versions.delete(version);
        if (known === undefined || known.versions.size > 0) return;
        this.#models.delete(model);
        removeVersionSums(registry, model, 'default', hostname);
        registry.built.HandlerTime.remove(model, 'Model', hostname);
        registry.built.PredictionTime.remove(model, 'Model', hostname);
        this.onModelGone(model);
        return;
      }
      case 'ready':
      case 'default':
      case 'scaled':
      case 'failed':
        return;
      default: {
        const never: never = change;
        throw new TypeError(`unknown change ${String(never)}`);
      }
    }
  }

  #requestEnded(event: RequestEnded): void {
    const { registry, hostname } = this;
    const known = this.#models.get(event.model);
    const series = known?.versions.get(event.version);
    if (known === undefined || series === undefined) {
      // Names that clients make up must not become series.
      registry.built.requests.series('', '', event.outcome, boundedReason(event.reason)).add(1);
      return;
    }
    series.ended(event);
    const { stages } = event;
    if (stages === undefined) return;
    const { queue, preprocess, wait, inference, postprocess, encode } = stages;
    const handled = preprocess + wait + inference + postprocess;
    this.#queueTime ??= registry.built.QueueTime.series('Host', hostname);
    this.#threadTime ??= registry.built.WorkerThreadTime.series('Host', hostname);
    this.#queueTime.set(milliseconds(queue));
    this.#threadTime.set(milliseconds(Math.max(0, event.totalNs - queue - handled - encode)));
    known.handler ??= registry.built.HandlerTime.series(event.model, 'Model', hostname);
    known.prediction ??= registry.built.PredictionTime.series(event.model, 'Model', hostname);
    known.handler.set(milliseconds(handled));
    known.prediction.set(milliseconds(handled + encode));
  }
}

/** Two decimals, as TorchServe writes its times. */
export function milliseconds(ns: number): number {
  return Math.round(ns / 1e4) / 100;
}
