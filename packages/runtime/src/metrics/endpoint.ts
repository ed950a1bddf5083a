import { contentTypes, render, type FamilySamples, type Format } from './exposition.js';
import { pullGauges, type GaugeSource } from './gauge-source.js';
import type { ProcessMetrics } from './process-metrics.js';
import { families, type FamilySpec } from './names.js';
import type { MetricRegistry } from './registry.js';

export type MetricsMode = 'log' | 'prometheus' | 'legacy';

export interface EndpointOptions {
  readonly enabled: boolean;
  readonly mode: MetricsMode;
  readonly registry: MetricRegistry;
  readonly process: ProcessMetrics;
  readonly gauges: GaugeSource;
  /** TorchServe's families that a metrics_config file lists; undefined for all. */
  readonly listed: ReadonlySet<string> | undefined;
}

export interface Scrape {
  readonly contentType: string;
  readonly body: string;
}

const groups = new Map(Object.values<FamilySpec>(families).map((spec) => [spec.name, spec.group]));
const legacyFamilies: ReadonlySet<string> = new Set([
  families.inferenceRequests.name,
  families.inferenceLatency.name,
  families.queueLatency.name,
]);

const hints: Record<MetricsMode, string> = {
  prometheus: '',
  log: "# TorchServe's metric families go to the log files because of metrics_mode=log; metrics_mode=prometheus brings them here.\n",
  legacy:
    "# Of TorchServe's metric families only the ts_ counters are here because of metrics_mode=legacy; metrics_mode=prometheus brings all.\n",
};

/** What the metrics listener answers from. */
export class Endpoint {
  readonly #options: EndpointOptions;

  constructor(options: EndpointOptions) {
    this.#options = options;
  }

  /**
   * @param accept the request's Accept header
   * @param names families wanted (`name[]`); undefined or empty for all
   * @returns undefined when the metrics API is off
   */
  async scrape(accept: string | undefined, names: readonly string[] | undefined): Promise<Scrape | undefined> {
    const { enabled, registry, process, gauges, mode } = this.#options;
    if (!enabled) return undefined;
    pullGauges(registry, gauges);
    const wanted = names === undefined || names.length === 0 ? undefined : new Set(names);
    const chosen: FamilySamples[] = [];
    for (const family of [...registry.all, ...(await process.collect())]) {
      if ((wanted === undefined || isWanted(family, wanted)) && this.#shows(family.name)) chosen.push(family);
    }
    const format = formatFor(accept);
    // OpenMetrics allows no comments, and who asks for named families knows what is missing.
    const hint = format === 'text' && wanted === undefined ? hints[mode] : '';
    return { contentType: contentTypes[format], body: hint + render(chosen, format) };
  }

  #shows(name: string): boolean {
    const { mode, listed } = this.#options;
    if (groups.get(name) !== 'torchserve') return true;
    if (listed !== undefined && !listed.has(name) && name !== 'HandlerTime' && name !== 'PredictionTime') return false;
    switch (mode) {
      case 'prometheus':
        return true;
      case 'legacy':
        return legacyFamilies.has(name);
      case 'log':
        return false;
      default: {
        const never: never = mode;
        throw new TypeError(`unknown metrics mode ${String(never)}`);
      }
    }
  }
}

/** A family is meant by its own name or by that of one of its samples. */
function isWanted(family: FamilySamples, wanted: ReadonlySet<string>): boolean {
  if (wanted.has(family.name)) return true;
  if (family.type !== 'histogram' && family.type !== 'summary') return false;
  return ['_bucket', '_sum', '_count'].some((suffix) => wanted.has(family.name + suffix));
}

/**
 * OpenMetrics only for who names a version of it, as Prometheus does: TorchServe answers the bare type with the text
 * format, and its clients rely on that.
 */
export function formatFor(accept: string | undefined): Format {
  let best: { format: Format; quality: number } = { format: 'text', quality: 0 };
  for (const part of (accept ?? '').split(',')) {
    const [type, ...parameters] = part.split(';').map((it) => it.trim().toLowerCase());
    const quality = Number(parameters.find((it) => it.startsWith('q='))?.slice(2) ?? 1);
    const versioned = parameters.some((it) => /^version=["']?(1\.0\.0|0\.0\.1)/.test(it));
    const text = type === 'text/plain' || type === 'text/*' || type === '*/*';
    if (!text && !(type === 'application/openmetrics-text' && versioned)) continue;
    if (quality > best.quality) best = { format: text ? 'text' : 'openmetrics', quality };
  }
  return best.format;
}
