import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { bundledHandlerNames } from '@onnxserve/handler-kit/internal';
import { ServeError } from '../domain/errors.js';
import { pathInside } from './entry-path.js';
import type { HandlerSpec } from './model-archive.js';

/**
 * Finds the code that a handler's name stands for.
 * @param root unpacked archive, absolute
 * @param text `file.js`, `file.js:export`, or the name of a bundled handler
 * @param origin what names it, for messages: `field "model.handler"`, `the handler parameter`
 * @throws {ServeError} INVALID_MODEL naming the file
 */
export async function resolveHandler(root: string, text: string, origin: string): Promise<HandlerSpec> {
  const colon = text.lastIndexOf(':');
  const name = (colon === -1 ? text : text.slice(0, colon)).trim();
  const exportName = colon === -1 ? '' : text.slice(colon + 1).trim();
  const extension = /\.([A-Za-z]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
  switch (extension) {
    case 'js':
    case 'mjs':
    case 'cjs': {
      const file = await findFile(root, name, origin);
      if (file === undefined) throw invalid(`${origin} names ${JSON.stringify(name)}, which is not in the archive.`);
      return { kind: 'module', file, exportName: exportName || 'default' };
    }
    case 'ts':
    case 'mts':
    case 'tsx':
      throw invalid(
        `${origin} names ${JSON.stringify(name)}. TypeScript is not run as it is: "onnxserve archive --handler ${basename(name)}" bundles it into the archive.`,
      );
    case 'py':
      return await javascriptBeside(root, name, origin);
    default:
      return await unsuffixed(root, name, exportName, origin);
  }
}

/** Archives move one by one: `x.js` beside `x.py` is its successor, so the manifest can stay as it is. */
async function javascriptBeside(root: string, name: string, origin: string): Promise<HandlerSpec> {
  const stem = name.slice(0, -'.py'.length);
  for (const candidate of [`${stem}.js`, `${stem}.mjs`]) {
    const file = await findFile(root, candidate, origin);
    // The name after a colon was that of a Python function.
    if (file !== undefined) return { kind: 'module', file, exportName: 'default' };
  }
  throw invalid(
    `${origin} names ${JSON.stringify(name)}, a Python handler, and this server runs handlers in JavaScript. ` +
      `Write it with @onnxserve/handler-kit, put ${basename(stem)}.js beside it in the archive or archive it anew with ` +
      `"onnxserve archive --handler ${basename(stem)}.ts", or name a bundled handler (${bundledHandlerNames.join(', ')}). docs/migration.md shows how.`,
  );
}

async function unsuffixed(root: string, name: string, exportName: string, origin: string): Promise<HandlerSpec> {
  for (const candidate of [`${name}.js`, `${name}.mjs`, `${name}.cjs`]) {
    const file = name === '' ? undefined : await findFile(root, candidate, origin);
    if (file !== undefined) return { kind: 'module', file, exportName: exportName || 'default' };
  }
  if (name === 'tensor') return { kind: 'tensor' };
  if (bundledHandlerNames.includes(name)) return { kind: 'bundled', name };
  if (name !== '' && (await findFile(root, `${name}.py`, origin))) return await javascriptBeside(root, `${name}.py`, origin);
  throw invalid(
    `${origin} names ${JSON.stringify(name)}, which is neither a .js or .mjs file of the archive nor a bundled handler (${bundledHandlerNames.join(', ')}).`,
  );
}

/** As named, or at the archive's root, where archivers put it whatever folder it came from. */
async function findFile(root: string, name: string, origin: string): Promise<string | undefined> {
  for (const path of [pathInside(root, name, origin), join(root, basename(name))]) {
    if ((await stat(path).catch(() => undefined))?.isFile()) return path;
  }
  return undefined;
}

function invalid(message: string): ServeError {
  return new ServeError('INVALID_MODEL', message.charAt(0).toUpperCase() + message.slice(1));
}
