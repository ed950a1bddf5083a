import { ServeError } from '../domain/errors.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { Handler } from './handler-chain.js';
import type { MetricsEndpoint } from './metrics-endpoint.js';

/** `/metrics` and whatever is below it. */
export function metricsHandler(metrics: MetricsEndpoint): Handler {
  return (exchange, segments) => {
    if (segments[0] !== 'metrics') return undefined;
    return (async () => {
      const names = queryPairs(exchange.search)
        .filter(([key]) => key === 'name[]')
        .map(([, value]) => value);
      const scraped = await metrics.scrape(exchange.request.headers.accept, names.length === 0 ? undefined : names);
      if (scraped === undefined)
        throw new ServeError('RESOURCE_NOT_FOUND', 'The metrics API is off; enable_metrics_api turns it on.');
      exchange.send(200, scraped.contentType, scraped.body);
    })();
  };
}
