import { handlerMetric, type HandlerMetric } from '../domain/events.js';
import { HistogramFamily, ScalarFamily, type Distribution, type Scalar } from './family.js';
import { metricName } from './handler-metric-name.js';
import type { MetricsConfig } from './metrics-config.js';
import type { MetricRegistry } from './registry.js';

const RESERVED = ['ModelName', 'Level', 'Hostname', 'le', 'quantile'];
/** Names of the Node process's own metrics. */
const RESERVED_PREFIX = /^(process_|nodejs_|onnxserve_)/;
const DEFAULT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1000, 5000, 10_000];

interface Definition {
  readonly family: ScalarFamily | HistogramFamily;
  readonly type: HandlerMetric['type'];
  /** The handler's own labels, sorted and joined. */
  readonly labels: string;
  readonly byModel: Map<string, Map<string, Scalar | Distribution>>;
  readonly definedBy: string;
}

type Refusal = 'conflict' | 'invalid' | 'series-limit' | 'metric-limit' | 'not-listed';

export interface HandlerMetricsOptions {
  readonly registry: MetricRegistry;
  readonly hostname: string;
  readonly config: MetricsConfig;
  /** False: only metrics that the metrics_config file lists are exported. */
  readonly autoDetect: boolean;
  /** Metrics, and series of all of them together, that the handlers of one model may make. */
  readonly maxMetrics: number;
  readonly maxSeries: number;
  readonly knows: (model: string, version: string) => boolean;
  /** One sentence for each kind of refusal of each metric of a model. */
  readonly warn: (sentence: string) => void;
}

/** Metrics that handlers define by using them. One definition holds for all models; a differing one is refused, the rest goes on. */
export class HandlerMetricsRecorder {
  readonly #options: HandlerMetricsOptions;
  readonly #definitions = new Map<string, Definition>();
  readonly #seriesOfModel = new Map<string, number>();
  readonly #metricsOfModel = new Map<string, number>();
  readonly #refusals = new Map<string, { readonly told: Set<string>; readonly undo: Map<string, () => void> }>();
  readonly #end: () => void;

  constructor(options: HandlerMetricsOptions) {
    this.#options = options;
    this.#end = handlerMetric.subscribe((event) => this.#record(event));
  }

  /** Takes a model's series away; a definition that nobody uses any more is forgotten. */
  forget(model: string): void {
    for (const [name, definition] of this.#definitions) {
      const series = definition.byModel.get(model);
      if (series === undefined) continue;
      definition.byModel.delete(model);
      for (const key of series.keys()) definition.family.remove(...(JSON.parse(key) as string[]));
      if (definition.byModel.size > 0) continue;
      this.#options.registry.drop(definition.family);
      this.#definitions.delete(name);
    }
    this.#seriesOfModel.delete(model);
    this.#metricsOfModel.delete(model);
    for (const undo of this.#refusals.get(model)?.undo.values() ?? []) undo();
    this.#refusals.delete(model);
  }

  close(): void {
    this.#end();
  }

  #record(event: HandlerMetric): void {
    const { model, version, value } = event;
    // A last message of a worker whose model is gone would bring its series back.
    if (!this.#options.knows(model, version)) return;
    const name = metricName(event.name);
    if (!Number.isFinite(value)) return this.#refuse(event, 'invalid', `its value is ${value}`);
    if (event.type === 'counter' && value < 0) return this.#refuse(event, 'invalid', `a counter cannot grow by ${value}`);
    const labels = Object.keys(event.labels)
      .filter((label) => !RESERVED.includes(label))
      .sort();
    const definition = this.#definitions.get(name) ?? this.#define(name, labels, event);
    if (definition === undefined) return;
    if (definition.type !== event.type) {
      return this.#refuse(
        event,
        'conflict',
        `it is a ${event.type} here and a ${definition.type} in model "${definition.definedBy}"`,
      );
    }
    if (definition.labels !== labels.join()) {
      const theirs = definition.labels === '' ? 'none' : definition.labels;
      return this.#refuse(
        event,
        'conflict',
        `its labels are ${labels.join() || 'none'} here and ${theirs} in model "${definition.definedBy}"`,
      );
    }
    const series = this.#series(definition, event, labels);
    if (series === undefined) return;
    if ('observe' in series) series.observe(value);
    else if (event.type === 'counter') series.add(value);
    else series.set(value);
  }

  #series(definition: Definition, event: HandlerMetric, labels: readonly string[]): Scalar | Distribution | undefined {
    const values = [event.model, 'Model', this.#options.hostname, ...labels.map((label) => String(event.labels[label]))];
    const key = JSON.stringify(values);
    let ofModel = definition.byModel.get(event.model);
    const found = ofModel?.get(key);
    if (found !== undefined) return found;
    if (this.#full(event, ofModel === undefined)) return undefined;
    this.#seriesOfModel.set(event.model, (this.#seriesOfModel.get(event.model) ?? 0) + 1);
    if (ofModel === undefined) {
      ofModel = new Map();
      definition.byModel.set(event.model, ofModel);
      this.#metricsOfModel.set(event.model, (this.#metricsOfModel.get(event.model) ?? 0) + 1);
    }
    const made = definition.family.series(...values);
    ofModel.set(key, made);
    return made;
  }

  #full(event: HandlerMetric, first: boolean): boolean {
    const { maxMetrics, maxSeries } = this.#options;
    if (first && (this.#metricsOfModel.get(event.model) ?? 0) >= maxMetrics) {
      this.#refuse(event, 'metric-limit', `the model has ${maxMetrics} metrics, which is the limit (max_handler_metrics)`);
      return true;
    }
    if ((this.#seriesOfModel.get(event.model) ?? 0) < maxSeries) return false;
    const limit = `the model has ${maxSeries} series, which is the limit`;
    this.#refuse(event, 'series-limit', `${limit}; use fewer label values, or raise max_handler_metric_series`);
    return true;
  }

  #define(name: string, labels: readonly string[], event: HandlerMetric): Definition | undefined {
    const { registry, config, autoDetect } = this.#options;
    const declared = config.model.get(event.name);
    if (declared === undefined && !autoDetect) {
      const why = 'the metrics_config file does not list it, and model_metrics_auto_detect=false exports nothing else';
      this.#refuse(event, 'not-listed', why);
      return undefined;
    }
    if (this.#full(event, true)) return undefined;
    if (declared !== undefined && declared.type !== event.type) {
      this.#refuse(event, 'conflict', `it is a ${event.type} here and a ${declared.type} in the metrics_config file`);
      return undefined;
    }
    const wanted = declared?.dimensions.filter((label) => !RESERVED.includes(label)).sort();
    if (wanted !== undefined && wanted.join() !== labels.join()) {
      const theirs = wanted.join() || 'none';
      this.#refuse(event, 'conflict', `its labels are ${labels.join() || 'none'} here and ${theirs} in the metrics_config file`);
      return undefined;
    }
    const owner = RESERVED_PREFIX.test(name) ? 'a metric of the server' : registry.clash(name, event.type);
    if (owner !== undefined) {
      this.#refuse(event, 'conflict', `its name clashes with ${owner}`);
      return undefined;
    }
    const bad = labels.find((label) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(label) || label.startsWith('__'));
    if (bad !== undefined) {
      this.#refuse(event, 'invalid', `"${bad}" is no label name; use letters, digits and _`);
      return undefined;
    }
    const unit = declared?.unit || event.unit;
    const options = {
      name,
      type: event.type,
      help: `Metric of a handler${unit === '' ? '' : `, unit: ${unit}`}.`,
      labels: ['ModelName', 'Level', 'Hostname', ...labels],
      buckets: declared?.buckets ?? DEFAULT_BUCKETS,
    };
    const family = event.type === 'histogram' ? new HistogramFamily(options) : new ScalarFamily(options);
    registry.add(family);
    const definition = { family, type: event.type, labels: labels.join(), byModel: new Map(), definedBy: event.model };
    this.#definitions.set(name, definition);
    return definition;
  }

  #refuse(event: HandlerMetric, reason: Refusal, why: string): void {
    const { model, version } = event;
    const refused = this.#options.registry.built.handlerMetricsRefused;
    let past = this.#refusals.get(model);
    if (past === undefined) {
      past = { told: new Set(), undo: new Map() };
      this.#refusals.set(model, past);
    }
    refused.series(model, version, reason).add(1);
    past.undo.set(`${version} ${reason}`, () => refused.remove(model, version, reason));
    // Names come from handlers without bound; so must not what is remembered of them. A limit is one matter for all metrics.
    const key = reason === 'metric-limit' || reason === 'series-limit' ? reason : `${event.name} ${reason}`;
    if (past.told.has(key) || past.told.size >= 100) return;
    past.told.add(key);
    this.#options.warn(`Metric "${event.name}" of model "${model}" is refused: ${why}.`);
  }
}
