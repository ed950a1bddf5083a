import type { AnyHandler } from '../handler.js';

/** The handlers that need no code of the user's, by the name that `handler:` gives them. Loaded on use. */
const bundled: Readonly<Record<string, () => Promise<{ default: AnyHandler }>>> = {
  tensor: () => import('./tensor.js'),
  image_classifier: () => import('./image-classifier.js'),
  text_embedding: () => import('./text-embedding.js'),
};

export const bundledHandlerNames: readonly string[] = Object.keys(bundled);

/** @throws {Error} naming the handlers that exist */
export async function loadBundledHandler(name: string): Promise<AnyHandler> {
  const load = Object.hasOwn(bundled, name) ? bundled[name] : undefined;
  if (!load) throw new Error(`there is no bundled handler "${name}"; there are ${bundledHandlerNames.join(', ')}`);
  return (await load()).default;
}
