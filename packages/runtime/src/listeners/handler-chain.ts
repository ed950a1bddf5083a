import type { Exchange } from './exchange.js';

/** One part of a listener: answers the exchange, or returns undefined when the path is not its own. */
export type Handler = (exchange: Exchange, segments: readonly string[]) => Promise<void> | undefined;
