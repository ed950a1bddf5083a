import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Manifest, ManifestError, parseManifest } from '@onnxserve/archiver/manifest';
import { ServeError } from '../domain/errors.js';

const manifestFolder = 'MAR-INF';
const manifestFile = 'MANIFEST.json';

/** What a folder turned out to be. */
export type Layout =
  | { readonly kind: 'archive'; readonly root: string; readonly marInf: string; readonly manifest: Manifest }
  /** No manifest, only a model: `model.onnx`, or the single .onnx file. */
  | { readonly kind: 'bare'; readonly root: string; readonly modelFile: string; readonly version: string };

export function isModelFile(name: string): boolean {
  return /\.(onnx|ort)$/i.test(name);
}

/**
 * Reads an unpacked archive: the manifest at the root or, as tar archives have it, in the one folder at the top.
 * @throws {ServeError} INVALID_MODEL naming the field
 */
export async function readArchiveLayout(directory: string, shownName: string): Promise<Layout> {
  const found = await findManifest(directory);
  if (found) return await readManifest(found, shownName);
  throw new ServeError('INVALID_MODEL', `The archive "${shownName}" has no ${manifestFolder}/${manifestFile}.`);
}

/**
 * Reads a folder of the model store: an unpacked archive, `NAME/VERSION/model.onnx`, or a folder with a model in it.
 * @param version which one of the version folders; default the highest number
 * @throws {ServeError} INVALID_MODEL, or MODEL_VERSION_NOT_FOUND when there is no such version
 */
export async function readFolderLayout(directory: string, shownName: string, version?: string): Promise<Layout> {
  const found = await findManifest(directory);
  if (found) return await readManifest(found, shownName);
  const versions = await listVersions(directory);
  if (version !== undefined && !versions.includes(version)) {
    if (versions.length === 0 && version === '1.0') return await bareFolder(directory, shownName, '1.0');
    const there = versions.length === 0 ? 'none' : versions.join(', ');
    throw new ServeError('MODEL_VERSION_NOT_FOUND', `The folder "${shownName}" has no version ${version}; there are: ${there}.`);
  }
  const chosen = version ?? versions.at(-1);
  if (chosen === undefined) return await bareFolder(directory, shownName, '1.0');
  const inside = join(directory, chosen);
  const archive = await findManifest(inside);
  if (archive) return await readManifest(archive, `${shownName}/${chosen}`);
  return await bareFolder(inside, `${shownName}/${chosen}`, chosen);
}

/** The versions of a `NAME/VERSION/model.onnx` folder, lowest first; empty when it is none. */
export async function listVersions(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const versions: string[] = [];
  for (const { name } of entries.filter((entry) => /^\d+$/.test(entry.name))) {
    const inside = await readdir(join(directory, name)).catch(() => [] as string[]);
    if (inside.some((file) => isModelFile(file) || sameName(file, manifestFolder))) versions.push(name);
  }
  return versions.sort((left, right) => Number(left) - Number(right));
}

async function bareFolder(directory: string, shownName: string, version: string): Promise<Layout> {
  const models = (await readdir(directory)).filter(isModelFile);
  const file = models.find((name) => name === 'model.onnx') ?? (models.length === 1 ? models[0] : undefined);
  if (file !== undefined) return { kind: 'bare', root: directory, modelFile: join(directory, file), version };
  const why =
    models.length === 0 ? 'no .onnx file' : `several .onnx files (${models.join(', ')}) and none of them is named model.onnx`;
  throw new ServeError('INVALID_MODEL', `The folder "${shownName}" has no ${manifestFolder}/${manifestFile}, and ${why}.`);
}

async function readManifest(found: { root: string; marInf: string; file: string }, shownName: string): Promise<Layout> {
  const text = await readFile(found.file, 'utf8');
  try {
    return { kind: 'archive', root: found.root, marInf: found.marInf, manifest: parseManifest(text) };
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    const what = `${manifestFolder}/${manifestFile} of "${shownName}": ${error.message}.`;
    throw new ServeError('INVALID_MODEL', what, { cause: error });
  }
}

async function findManifest(directory: string, depth = 0): Promise<{ root: string; marInf: string; file: string } | undefined> {
  const names = await readdir(directory);
  for (const folder of names.filter((name) => sameName(name, manifestFolder))) {
    const marInf = join(directory, folder);
    const inside = await readdir(marInf).catch(() => [] as string[]);
    const file = inside.find((name) => sameName(name, manifestFile));
    if (file !== undefined) return { root: directory, marInf, file: join(marInf, file) };
  }
  if (depth > 0) return undefined;
  const visible = names.filter((name) => !name.startsWith('.') && name !== '__MACOSX');
  if (visible.length !== 1) return undefined;
  const only = join(directory, visible[0]!);
  // A folder named by digits is a version of a model, not an archive's top folder.
  if (/^\d+$/.test(basename(only)) || !(await stat(only)).isDirectory()) return undefined;
  return await findManifest(only, depth + 1);
}

function sameName(left: string, right: string): boolean {
  return left.toLowerCase() === right.toLowerCase();
}
