import { collectDefaultMetrics, Registry } from 'prom-client';
import { labelText, type FamilySamples, type Sample } from './exposition.js';
import type { MetricType } from './names.js';

/** Metrics of the front process itself: CPU, memory, file descriptors, garbage collection, event loop. */
export class ProcessMetrics {
  readonly #registry = new Registry();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    // Gauges whose names claim to be counters; the same figures exist by type without the suffix.
    for (const name of ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'])
      this.#registry.removeSingleMetric(name);
  }

  async collect(): Promise<FamilySamples[]> {
    const all = await this.#registry.getMetricsAsJSON();
    return all.map((metric) => ({
      name: metric.name,
      type: String(metric.type) as MetricType,
      help: metric.help,
      samples: metric.values.map((value): Sample => {
        const named = 'metricName' in value && typeof value.metricName === 'string' ? value.metricName : metric.name;
        const labels = Object.entries(value.labels ?? {}).filter(([, it]) => it !== undefined);
        return {
          suffix: named.slice(metric.name.length),
          labels: labelText(
            labels.map(([name]) => name),
            labels.map(([, it]) => String(it)),
          ),
          value: value.value,
        };
      }),
    }));
  }

  close(): void {
    this.#registry.clear();
  }
}
