import { readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

/** Where the parts of a TorchServe installation are; paths are absolute. */
export interface Parts {
  readonly configFile: string | undefined;
  readonly modelStore: string | undefined;
  readonly workflowStore: string | undefined;
}

export interface GivenParts {
  readonly tsConfig?: string | undefined;
  readonly modelStore?: string | undefined;
  readonly workflowStore?: string | undefined;
}

const storeNames = ['model-store', 'model_store', 'models', 'modelstore'];
const workflowStoreNames = ['wf-store', 'wf_store', 'workflow-store', 'workflow_store'];

/** @throws {Error} when the folder cannot be read */
export function findConfigFile(directory: string, given: string | undefined): string | undefined {
  if (!statSync(directory).isDirectory()) throw new Error(`${directory} is no folder`);
  if (given !== undefined) return resolve(given);
  return ['config.properties', 'config/config.properties', 'conf/config.properties']
    .map((name) => join(directory, name))
    .find(isFile);
}

/**
 * Finds a store. Its path in a file is often one of a container, so a folder of the same name beside the file will do.
 * @param configured what the configuration says
 */
export function findStore(
  directory: string,
  given: string | undefined,
  configured: string | undefined,
  kind: 'model' | 'workflow',
): string | undefined {
  if (given !== undefined) return resolve(given);
  const candidates = [
    ...(configured === undefined ? [] : [resolve(directory, configured), join(directory, basename(configured))]),
    ...(kind === 'model' ? storeNames : workflowStoreNames).map((name) => join(directory, name)),
    directory,
  ];
  const ending = kind === 'model' ? /\.(mar|tar\.gz|tgz|model)$/i : /\.war$/i;
  return candidates.find((path) => isFolder(path) && (path !== directory || readdirSync(path).some((name) => ending.test(name))));
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
