import { ServeError } from '../domain/errors.js';
import { inferenceRoute } from '../protocol/torchserve/inference-route.js';
import { segmentsOf } from '../protocol/torchserve/path.js';
import { authorize } from './authorize.js';
import { isPreflight } from './cors.js';
import { Exchange, type ExchangeSettings, type ListenerName } from './exchange.js';
import type { Handler } from './handler-chain.js';
import type { Dispatch } from './http-server.js';

export interface Part {
  readonly name: ListenerName;
  readonly handle: Handler;
}

/** Where each listener is, as far as it is open. */
export type Whereabouts = Partial<Record<ListenerName, string>>;

/** Gives each exchange to the first part of the chain that knows its path. */
export function dispatcher(chain: readonly Part[], settings: ExchangeSettings, where: Whereabouts): Dispatch {
  const first = chain[0]?.name ?? 'inference';
  const names = new Set(chain.map((part) => part.name));
  const run = async (exchange: Exchange): Promise<void> => {
    try {
      if (!exchange.path.startsWith('/')) throw new ServeError('BAD_REQUEST', 'The request target is not a path.');
      const segments = segmentsOf(exchange.path);
      for (const { name, handle } of chain) {
        exchange.listener = name;
        const answered = handle(exchange, segments);
        if (answered !== undefined) {
          await answered;
          return;
        }
      }
      exchange.listener = first;
      // Who has no token is told nothing of what is there.
      if (first !== 'metrics') authorize(exchange, first);
      throw new ServeError('RESOURCE_NOT_FOUND', notFound(exchange.path, segments, names, where));
    } catch (error) {
      if (settings.cors.length > 0 && isPreflight(exchange.request)) exchange.empty(204);
      else exchange.fail(error);
    }
  };
  return (request, response) => void run(new Exchange(first, request, response, settings));
}

function notFound(path: string, segments: readonly string[], here: ReadonlySet<ListenerName>, where: Whereabouts): string {
  const message = `There is nothing at ${path.slice(0, 200)}`;
  const owner = listenerOf(segments);
  if (owner === undefined || here.has(owner)) return `${message}.`;
  const address = where[owner];
  if (address === undefined) return `${message}; it belongs to the ${owner} API, which enable_${owner}_api=false turned off.`;
  return `${message}; it belongs to the ${owner} listener, ${address}.`;
}

/** The listener whose API a path belongs to. */
function listenerOf(segments: readonly string[]): ListenerName | undefined {
  if (inferenceRoute(segments) !== undefined) return 'inference';
  const [first] = segments;
  if (first === 'models' || first === 'workflows' || first === 'logging') return 'management';
  return first === 'metrics' ? 'metrics' : undefined;
}
