import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import * as module from 'node:module';
import { basename, dirname, join } from 'node:path';

/** Packages that a handler may import without bringing them: there must be one copy of the kit, and native ones do not travel. */
const PROVIDED = ['@onnxserve/handler-kit', 'sharp', '@napi-rs/image', 'tokenizers', 'onnxruntime-node'];
/** Folders that archives are unpacked into; only there may anything be added. */
const OWN_FOLDER = /^onnxserve-models-/;

type ResolveHook = (
  specifier: string,
  context: { parentURL?: string | undefined },
  next: (specifier: string, context: { parentURL?: string | undefined }) => unknown,
) => unknown;

/**
 * Lets the handlers of an archive import what the server provides, wherever the archive lies.
 * @param directory the archive's root
 */
export function provideModules(directory: string): void {
  const { registerHooks } = module as { registerHooks?: (hooks: { resolve: ResolveHook }) => void };
  if (registerHooks !== undefined) {
    registerHooks({
      resolve: (specifier, context, next) =>
        isProvided(specifier) ? next(specifier, { ...context, parentURL: import.meta.url }) : next(specifier, context),
    });
    return;
  }
  // Hooks of older Nodes need a thread of their own, which costs every start; a folder of links beside the archive does as well.
  const parent = dirname(directory);
  if (OWN_FOLDER.test(basename(parent))) linkModules(join(parent, 'node_modules'));
  else module.register(new URL('./provided-modules-hook.js', import.meta.url));
}

export function isProvided(specifier: string): boolean {
  return PROVIDED.some((name) => specifier === name || specifier.startsWith(`${name}/`));
}

function linkModules(folder: string): void {
  const require = module.createRequire(import.meta.url);
  for (const name of PROVIDED) {
    // Asked of the file system, since not every package lets its package.json be resolved.
    const target = (require.resolve.paths(name) ?? []).map((modules) => join(modules, name)).find((path) => existsSync(path));
    if (target === undefined) continue;
    const link = join(folder, name);
    mkdirSync(dirname(link), { recursive: true });
    try {
      symlinkSync(target, link);
    } catch (error) {
      // Every worker of the server makes the same links.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}
