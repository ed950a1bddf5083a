import { readFile, stat } from 'node:fs/promises';
import { basename, extname, resolve } from 'node:path';
import { bundledHandlerNames } from '@onnxserve/handler-kit/internal';
import { ArchiveError } from './archive-error.js';
import { bundleHandler } from './bundle-handler.js';
import { checkConfig } from './check-config.js';
import { checkModel } from './check-model.js';
import { addExternalData, addExtraFiles, ArchiveFiles } from './collect-files.js';
import { formatCreatedOn, formatManifest, type Manifest, runtimes } from './manifest.js';
import { type Expectations, expectationsFile } from './provides.js';
import { type ArchiveFormat, archivePath, writeArchive } from './write-archive.js';

export interface ArchiveOptions {
  readonly modelName: string;
  readonly version: string;
  /** `handler.ts`, `handler.js` or `.mjs`, with `:export` when it is not the default export; or a bundled handler's name. */
  readonly handler?: string;
  /** The main model, .onnx or .ort. */
  readonly serializedFile?: string;
  /** Kept for TorchServe's sake; packed and named in the manifest. */
  readonly modelFile?: string;
  /** Comma list of files, folders and `path/inside=file`. */
  readonly extraFiles?: string;
  /** Default `node`. */
  readonly runtime?: string;
  /** Default the working directory. */
  readonly exportPath?: string;
  readonly archiveFormat?: ArchiveFormat;
  /** Overwrite what is there. */
  readonly force?: boolean;
  readonly requirementsFile?: string;
  readonly configFile?: string;
  /** False: do not load the models to see whether they work. */
  readonly checkModel?: boolean;
  /** Told what is being done, a line at a time. */
  readonly onProgress?: (line: string) => void;
  /** Told what is allowed but probably not meant. */
  readonly onWarning?: (line: string) => void;
}

/**
 * Makes a model archive: bundles the handler, loads the model once, writes the manifest.
 * @returns absolute path of the archive
 * @throws {ArchiveError} naming the file or option that is wrong
 */
export async function archive(options: ArchiveOptions): Promise<{ readonly path: string }> {
  const progress = options.onProgress ?? (() => undefined);
  const format = options.archiveFormat ?? 'default';
  const exportPath = resolve(options.exportPath ?? '.');
  await checkOptions(options, exportPath);
  const path = archivePath(exportPath, options.modelName, format);
  if (!options.force && (await stat(path).catch(() => undefined))) {
    throw new ArchiveError(`${path} already exists. Use --force (-f) to overwrite it, or another --export-path.`);
  }
  const files = new ArchiveFiles();
  const handler = await addHandler(files, options, progress);
  await addNamed(files, options.serializedFile, '--serialized-file');
  await addNamed(files, options.modelFile, '--model-file');
  await addNamed(files, options.requirementsFile, '--requirements-file');
  await addNamed(files, options.configFile, '--config-file');
  if (options.extraFiles !== undefined) await addExtraFiles(files, options.extraFiles);
  await addExternalData(files);
  await checkReferences(files, options);
  if (options.checkModel ?? true) await checkModels(files, progress);
  warn(options);
  const manifest = await describe(options, handler);
  files.add('MAR-INF/MANIFEST.json', { content: Buffer.from(formatManifest(manifest)) });
  progress(`Writing ${path}`);
  await writeArchive(path, format, files.entries(), options.modelName, options.force ?? false);
  return { path };
}

async function checkOptions(options: ArchiveOptions, exportPath: string): Promise<void> {
  const { modelName, version, runtime } = options;
  if (modelName === '' || modelName.includes('..') || modelName.startsWith('.') || /[/\\]|\p{Cc}/u.test(modelName)) {
    throw new ArchiveError(`--model-name ${JSON.stringify(modelName)}: a name has no slashes, no ".." and no leading dot.`);
  }
  if (version === '' || version.includes('..') || /[/\\]|\p{Cc}/u.test(version)) {
    throw new ArchiveError(`--version ${JSON.stringify(version)}: a version has no slashes and no "..".`);
  }
  if (runtime !== undefined && !(runtimes as readonly string[]).includes(runtime)) {
    throw new ArchiveError(`--runtime "${runtime}" is not known; it may be ${runtimes.join(', ')}.`);
  }
  if (!(await stat(exportPath).catch(() => undefined))?.isDirectory()) {
    throw new ArchiveError(`--export-path ${exportPath} is no folder; make it first.`);
  }
  if (options.handler === undefined && options.serializedFile === undefined) {
    throw new ArchiveError('An archive needs a --handler, a --serialized-file, or both.');
  }
}

/** @returns what the manifest says */
async function addHandler(
  files: ArchiveFiles,
  options: ArchiveOptions,
  progress: (line: string) => void,
): Promise<string | undefined> {
  if (options.handler === undefined) return undefined;
  const colon = /^[A-Za-z]:[\\/]/.test(options.handler) ? options.handler.indexOf(':', 2) : options.handler.indexOf(':');
  const file = colon === -1 ? options.handler : options.handler.slice(0, colon);
  const exportName = colon === -1 ? 'default' : options.handler.slice(colon + 1);
  const extension = extname(file).toLowerCase();
  if (extension === '') {
    if (bundledHandlerNames.includes(file)) return options.handler;
    throw new ArchiveError(
      `--handler ${file} is neither a .ts, .js or .mjs file nor a bundled handler (${bundledHandlerNames.join(', ')}).`,
    );
  }
  if (extension === '.py') {
    throw new ArchiveError(
      `--handler ${file} is Python, and the server runs handlers in JavaScript. Write it as ${basename(file, '.py')}.ts with ` +
        `@onnxserve/handler-kit, or name a bundled handler (${bundledHandlerNames.join(', ')}). docs/migration.md shows how.`,
    );
  }
  if (!['.ts', '.mts', '.tsx', '.js', '.mjs', '.cjs'].includes(extension)) {
    throw new ArchiveError(`--handler ${file}: a handler is a .ts, .js or .mjs file, or the name of a bundled one.`);
  }
  progress(`Bundling ${file}`);
  const bundled = await bundleHandler(file, [exportName]);
  files.add(bundled.fileName, { content: bundled.content });
  files.add(`MAR-INF/${expectationsFile}`, { content: Buffer.from(formatExpectations(bundled.expects)) });
  return exportName === 'default' ? bundled.fileName : `${bundled.fileName}:${exportName}`;
}

export function formatExpectations(expects: Expectations): string {
  return `${JSON.stringify({ runtimeProvides: expects.runtimeProvides, handlerKit: expects.handlerKit }, undefined, 2)}\n`;
}

async function addNamed(files: ArchiveFiles, file: string | undefined, option: string): Promise<void> {
  if (file === undefined) return;
  if (!(await stat(file).catch(() => undefined))?.isFile()) {
    throw new ArchiveError(`${option} names ${file}, which is no file.`);
  }
  files.add(basename(file), { source: resolve(file) });
}

async function checkReferences(files: ArchiveFiles, options: ArchiveOptions): Promise<void> {
  if (options.configFile === undefined) return;
  const { handler, models } = await checkConfig(options.configFile, options.modelName);
  const named = handler !== undefined && /\.[cm]?js(:|$)/.test(handler) ? [handler.split(':')[0]!, ...models] : models;
  for (const file of named) {
    if (!files.has(file)) {
      throw new ArchiveError(`${options.configFile} names "${file}", which is not in the archive; add it with --extra-files.`);
    }
  }
}

async function checkModels(files: ArchiveFiles, progress: (line: string) => void): Promise<void> {
  for (const [path, entry] of files.entries()) {
    if (!/\.(onnx|ort)$/i.test(path) || !('source' in entry)) continue;
    progress(`Loading ${path}`);
    await checkModel(entry.source, entry.source);
  }
}

function warn(options: ArchiveOptions): void {
  const warning = options.onWarning ?? (() => undefined);
  if (options.requirementsFile !== undefined) {
    warning(`${options.requirementsFile} is packed, but the server installs no Python requirements.`);
  }
  if (options.modelFile !== undefined) warning(`${options.modelFile} is packed, but an ONNX model needs no model file.`);
  const { serializedFile } = options;
  if (serializedFile !== undefined && !/\.(onnx|ort)$/i.test(serializedFile)) {
    const { handler } = options;
    if (handler === undefined || !/\.[cm]?[jt]s(:|$)/i.test(handler)) {
      throw new ArchiveError(
        `${serializedFile} is no .onnx file, which ${handler === undefined ? 'a model without a handler' : `the handler "${handler}"`} needs. Export the model to ONNX first.`,
      );
    }
    warning(`${serializedFile} is no .onnx file; only the handler itself can use it.`);
  }
}

async function describe(options: ArchiveOptions, handler: string | undefined): Promise<Manifest> {
  const base = (file: string | undefined) => (file === undefined ? undefined : basename(file));
  return {
    createdOn: formatCreatedOn(new Date()),
    archiverVersion: await ownVersion(),
    runtime: options.runtime ?? 'node',
    model: {
      modelName: options.modelName,
      modelVersion: options.version,
      handler,
      serializedFile: base(options.serializedFile),
      modelFile: base(options.modelFile),
      requirementsFile: base(options.requirementsFile),
      configFile: base(options.configFile),
    },
  };
}

export async function ownVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
