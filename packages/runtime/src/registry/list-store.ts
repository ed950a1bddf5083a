import { readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { ServeError } from '../domain/errors.js';

/**
 * What `load_models=all` loads: every archive, bare model and folder of the store that is not hidden, by name, sorted.
 * @throws {ServeError} RESOURCE_NOT_FOUND when the store cannot be read
 */
export async function listStore(modelStore: string): Promise<string[]> {
  let names: string[];
  try {
    names = await readdir(modelStore);
  } catch (error) {
    const { message } = error as Error;
    throw new ServeError('RESOURCE_NOT_FOUND', `The model store ${modelStore} cannot be read: ${message}.`, { cause: error });
  }
  const found: string[] = [];
  for (const name of names.sort()) {
    if (name.startsWith('.') || name === 'lost+found') continue;
    // stat follows links, which mounted stores are full of; one that leads nowhere is left out.
    const entry = await stat(join(modelStore, name)).catch(() => undefined);
    if (
      (entry?.isDirectory() === true && (await holdsModel(join(modelStore, name)))) ||
      (entry?.isFile() && /\.(mar|model|tar\.gz|tgz|zip|onnx)$/i.test(name))
    )
      found.push(name);
  }
  return found;
}

/** A folder of logs or notes that lies in the store is no model. */
async function holdsModel(folder: string): Promise<boolean> {
  const names = await readdir(folder).catch(() => []);
  if (names.some((name) => /^mar-inf$/i.test(name) || extname(name) === '.onnx')) return true;
  const versions = names.filter((name) => /^\d+$/.test(name));
  const inside = await Promise.all(versions.map((version) => readdir(join(folder, version)).catch((): string[] => [])));
  return inside.flat().some((name) => extname(name) === '.onnx');
}
