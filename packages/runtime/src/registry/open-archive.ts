import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, extname, relative, resolve } from 'node:path';
import type { Manifest } from '@onnxserve/archiver/manifest';
import { ServeError } from '../domain/errors.js';
import {
  checkModels,
  checkRuntime,
  findModelFile,
  findSessionFiles,
  readModelConfig,
  unusedParts,
  whyModelNeeded,
} from './archive-contents.js';
import type { ArchiveEnvironment, ArchiveInput } from './archive-environment.js';
import { resolveHandler } from './handler-spec.js';
import { isModelFile, type Layout, readArchiveLayout, readFolderLayout } from './layout.js';
import { type Located, locate } from './locate.js';
import type { HandlerSpec, ModelArchive } from './model-archive.js';
import { checkModelName, checkModelVersion } from './model-name.js';
import { checkExpectations } from './provided-versions.js';
import { acquireTempFolder, type TempFolder } from './temp-space.js';
import { unpack } from './unpack.js';

/**
 * Finds, fetches, unpacks and checks a model. Everything that can be known to be wrong without running it is refused here, and nothing
 * is left behind then.
 *
 * The name is the caller's, else the manifest's; a bare model is named after its file or folder.
 * @throws {ServeError} MODEL_NOT_FOUND (no such archive, url not allowed), DOWNLOAD_FAILED, CONFLICT (the downloaded file's name is taken
 *   in the store), INVALID_MODEL, MODEL_VERSION_NOT_FOUND, BAD_REQUEST (illegal name), INTERNAL (no space)
 */
export async function openArchive(input: ArchiveInput, env: ArchiveEnvironment): Promise<ModelArchive> {
  const modelName = input.modelName || undefined;
  if (modelName !== undefined) checkModelName(modelName);
  if (input.runtime) checkRuntime(input.runtime);
  const located = await locate(input, env);
  let temp: TempFolder | undefined;
  const close = async () => await temp?.remove();
  const dispose = async () => {
    await close();
    if (located.downloaded) await rm(located.path, { force: true });
  };
  try {
    if (located.kind === 'file' && !isModelFile(located.path)) {
      temp = await acquireTempFolder(env.tempDirectory);
      await unpack(located.path, located.shownName, temp.path, env.limits);
    }
    const layout = await readLayout(located, temp?.path, input.version, env.modelStore);
    return { ...(await describeModel(layout, located, { ...input, modelName }, env)), dispose, close };
  } catch (error) {
    await dispose();
    throw error instanceof ServeError
      ? error
      : new ServeError('INTERNAL', `The archive "${located.shownName}" could not be read.`, { cause: error });
  }
}

async function readLayout(
  located: Located,
  unpacked: string | undefined,
  version: string | undefined,
  store: string | undefined,
): Promise<Layout> {
  if (unpacked !== undefined) return await readArchiveLayout(unpacked, located.shownName);
  if (located.kind === 'folder') {
    const layout = await readFolderLayout(located.path, located.shownName, version);
    return layout.kind === 'bare' && layout.root === located.path && isVersionFolder(located.path, store)
      ? { ...layout, version: basename(located.path) }
      : layout;
  }
  return { kind: 'bare', root: dirname(located.path), modelFile: located.path, version: '1.0' };
}

/** `NAME/3`, as against a model named `3`. */
function isVersionFolder(path: string, store: string | undefined): boolean {
  return /^\d+$/.test(basename(path)) && (store === undefined || dirname(path) !== resolve(store));
}

type Described = Omit<ModelArchive, 'dispose' | 'close'>;

async function describeModel(layout: Layout, located: Located, input: ArchiveInput, env: ArchiveEnvironment): Promise<Described> {
  const { root } = layout;
  const manifest = layout.kind === 'archive' ? layout.manifest : bareManifest(layout, located, env.modelStore);
  const name = input.modelName ?? manifest.model.modelName;
  if (name === undefined) {
    const what = `The manifest of "${located.shownName}" has no field "model.modelName", and no model_name was given.`;
    throw new ServeError('INVALID_MODEL', what);
  }
  checkModelName(name);
  const version = manifest.model.modelVersion;
  checkModelVersion(version);
  if (layout.kind === 'archive') await checkExpectations(layout.marInf, located.shownName, env.provides);
  // A folder without a manifest may still have a config; beside a file of the store it would be everybody's.
  const inFolder = located.kind === 'folder';
  const configFile = manifest.model.configFile ?? (layout.kind === 'bare' && inFolder ? await folderConfig(root) : undefined);
  const { config, hasConfigFile, warnings } = await readModelConfig(root, configFile, name);
  const handler = await chooseHandler(root, manifest, input, config.handler);
  const notes = [...warnings];
  const modelFile =
    layout.kind === 'bare' && config.onnx.model === undefined
      ? layout.modelFile
      : await findModelFile(root, manifest, config, notes, whyModelNeeded(handler));
  const sessionFiles = await findSessionFiles(root, config);
  const models = [...(modelFile === undefined ? [] : [modelFile]), ...Object.values(sessionFiles)];
  await checkModels(root, models, (file) => relative(root, file));
  if (layout.kind === 'archive') notes.push(...(await unusedParts(root, manifest)));
  return {
    name,
    version,
    url: input.url,
    runtime: input.runtime || manifest.runtime,
    directory: root,
    handler,
    modelFile,
    sessionFiles,
    config,
    hasConfigFile,
    warnings: notes,
  };
}

function bareManifest(layout: Layout & { kind: 'bare' }, located: Located, store: string | undefined): Manifest {
  const file = basename(layout.modelFile);
  const folder = isVersionFolder(located.path, store) ? dirname(located.path) : located.path;
  const modelName = located.kind === 'folder' ? basename(folder) : file.slice(0, -extname(file).length);
  return { runtime: 'node', model: { modelName, modelVersion: layout.version } };
}

async function chooseHandler(
  root: string,
  manifest: Manifest,
  input: ArchiveInput,
  configured: string | undefined,
): Promise<HandlerSpec> {
  if (input.handler) return await resolveHandler(root, input.handler, 'the handler parameter');
  if (configured !== undefined) return await resolveHandler(root, configured, 'handler of the model config');
  if (manifest.model.handler !== undefined) return await resolveHandler(root, manifest.model.handler, 'field "model.handler"');
  if (input.defaultHandler) return await resolveHandler(root, input.defaultHandler, 'default_service_handler');
  return { kind: 'tensor' };
}

async function folderConfig(root: string): Promise<string | undefined> {
  const names = await readdir(root);
  return ['model-config.yaml', 'model-config.yml', 'config.yaml'].find((name) => names.includes(name));
}
