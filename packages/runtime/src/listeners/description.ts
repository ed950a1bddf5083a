import { apiDocument } from '../protocol/torchserve/openapi.js';
import type { ListenerName } from './exchange.js';
import type { Handler } from './handler-chain.js';

/** `OPTIONS /` and any method on `/api-description`. */
export function descriptionHandler(names: readonly ListenerName[]): Handler {
  let document: object | undefined;
  return (exchange, segments) => {
    if (segments.length !== 1) return undefined;
    const [path] = segments;
    if (path !== '' && path !== 'api-description') return undefined;
    return (async () => {
      if (path === '' && exchange.method !== 'OPTIONS') exchange.methodNotAllowed('OPTIONS');
      document ??= apiDocument(names);
      exchange.json(200, document);
    })();
  };
}
