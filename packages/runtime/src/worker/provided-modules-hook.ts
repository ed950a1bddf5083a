import { isProvided } from './provided-modules.js';

type Next = (specifier: string, context: { parentURL?: string | undefined }) => unknown;

/** Resolves what the server provides from the server's own place. Runs in the loader thread of Nodes without synchronous hooks. */
export function resolve(specifier: string, context: { parentURL?: string | undefined }, next: Next): unknown {
  return isProvided(specifier) ? next(specifier, { ...context, parentURL: import.meta.url }) : next(specifier, context);
}
