import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { AnyHandler, HandlerResult, StagedHandler } from '@onnxserve/handler-kit';
import { loadBundledHandler } from '@onnxserve/handler-kit/internal';
import type { HandlerSpec } from '../registry/model-archive.js';

/** Loads the code that serves a model. @throws with a message that names the file and what is wrong with it */
export async function loadHandler(spec: HandlerSpec): Promise<AnyHandler> {
  switch (spec.kind) {
    case 'tensor':
      return loadBundledHandler('tensor');
    case 'bundled':
      return loadBundledHandler(spec.name);
    case 'module': {
      const module = (await import(pathToFileURL(spec.file).href)) as Record<string, unknown>;
      return checkHandler(module[spec.exportName] ?? fallback(module, spec.exportName), spec.file, spec.exportName);
    }
    case 'function': {
      const module = (await import(pathToFileURL(spec.file).href)) as Record<string, unknown>;
      const value = module[spec.exportName] ?? fallback(module, spec.exportName);
      if (typeof value !== 'function') {
        throw new TypeError(
          `${basename(spec.file)} exports ${value === undefined ? 'no' : `a ${typeof value} as`} "${spec.exportName}", which the workflow's graph names as a function`,
        );
      }
      const call = value as NonNullable<StagedHandler<unknown, unknown, unknown>['preprocess']>;
      return { preprocess: (request, ctx) => call(request, ctx), postprocess: (result) => result as HandlerResult };
    }
  }
}

/** CommonJS bundles hide the default export one level deeper. */
function fallback(module: Record<string, unknown>, name: string): unknown {
  const inner = module['default'];
  return name === 'default' || typeof inner !== 'object' || inner === null ? undefined : (inner as Record<string, unknown>)[name];
}

const stages = ['preprocess', 'inference', 'postprocess', 'explain', 'handle', 'pad', 'step', 'release'];
const known = ['load', 'unload', 'startSequence', 'endSequence', 'describe'].concat(stages);

function checkHandler(value: unknown, file: string, name: string): AnyHandler {
  // The folder it was unpacked into says nothing to whoever made the archive.
  const where = `${basename(file)} (export "${name}")`;
  if (typeof value === 'object' && value !== null && 'default' in value && !('postprocess' in value)) {
    return checkHandler(value.default, file, name);
  }
  if (typeof value !== 'object' || value === null) {
    throw new TypeError(
      `${where} is ${value === undefined ? 'missing' : typeof value}; a handler is what defineHandler({...}) returns`,
    );
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    if (!known.includes(key)) throw new TypeError(`${where} has the member "${key}", which is none of ${known.join(', ')}`);
    const kind = typeof members[key];
    if (kind === 'undefined' || kind === 'function' || (key === 'pad' && kind === 'object')) continue;
    throw new TypeError(`${where}: "${key}" is not a function`);
  }
  if (
    members['handle'] !== undefined &&
    (members['preprocess'] ?? members['inference'] ?? members['postprocess']) !== undefined
  ) {
    throw new TypeError(`${where} has handle() and one of preprocess, inference, postprocess; handle() replaces all three`);
  }
  if (members['step'] !== undefined) {
    const other = ['handle', 'inference', 'postprocess', 'explain', 'pad'].find((key) => members[key] !== undefined);
    if (other !== undefined) throw new TypeError(`${where} has step() and ${other}; step() is all that a running batch does`);
  }
  return value as AnyHandler;
}
