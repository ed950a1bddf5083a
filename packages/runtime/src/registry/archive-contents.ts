import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { runtimes, type Manifest } from '@onnxserve/archiver/manifest';
import { parseModelConfig } from '../config/model-config-parser.js';
import type { ModelConfig } from '../config/model-config.js';
import { ServeError } from '../domain/errors.js';
import { checkExternalData } from './external-data.js';
import { pathInside } from './entry-path.js';
import { isModelFile } from './layout.js';
import type { HandlerSpec } from './model-archive.js';

export interface ReadConfig {
  readonly config: ModelConfig;
  readonly hasConfigFile: boolean;
  readonly warnings: readonly string[];
}

const noConfig: ModelConfig = { onnx: {}, free: {} };

/**
 * Reads the config file of an archive. One that is missing or no YAML counts as none, with a warning, as in TorchServe.
 * @throws {ServeError} INVALID_MODEL when a setting of it must not be used
 */
export async function readModelConfig(root: string, file: string | undefined, modelName: string): Promise<ReadConfig> {
  if (file === undefined) return { config: noConfig, hasConfigFile: false, warnings: [] };
  const path = pathInside(root, file, 'field "model.configFile"');
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text === undefined) {
    const warning = `${file}, named by field "model.configFile", is not in the archive; the model is served without it.`;
    return { config: noConfig, hasConfigFile: false, warnings: [warning] };
  }
  const { config, problems } = parseModelConfig(text, file, modelName);
  const error = problems.find(({ severity }) => severity === 'error');
  if (error) throw new ServeError('INVALID_MODEL', located(error));
  // The parser reports a file that it could not read at all under the file's own name.
  const readable = !problems.some(({ key }) => key === file);
  return { config, hasConfigFile: readable, warnings: problems.map(located) };
}

function located(problem: { where: string | undefined; message: string }): string {
  return problem.where === undefined || problem.message.startsWith(problem.where)
    ? problem.message
    : `${problem.where}: ${problem.message}`;
}

/**
 * Finds the archive's main model: `onnx: model:` of the config, the manifest's serializedFile, or the only .onnx file.
 * @param needed why there must be one, or undefined when the handler can do without
 * @throws {ServeError} INVALID_MODEL naming the file
 */
export async function findModelFile(
  root: string,
  manifest: Manifest,
  config: ModelConfig,
  warnings: string[],
  needed: string | undefined,
): Promise<string | undefined> {
  if (config.onnx.model !== undefined) return await existing(root, config.onnx.model, 'onnx.model');
  const { serializedFile } = manifest.model;
  if (serializedFile !== undefined) {
    const path = await existing(root, serializedFile, 'field "model.serializedFile"');
    if (isModelFile(serializedFile)) return path;
    const what = `Field "model.serializedFile" names "${serializedFile}", which is no ONNX model`;
    if (needed !== undefined) throw new ServeError('INVALID_MODEL', `${what}. Export the model to ONNX; ${needed}.`);
    warnings.push(`${what} and is not loaded; the handler can read it as a file.`);
    return undefined;
  }
  const models = (await readdir(root)).filter(isModelFile);
  if (models.length === 1) return join(root, models[0]!);
  if (needed === undefined) return undefined;
  const why =
    models.length === 0
      ? 'there is no .onnx file in the archive'
      : `there are several .onnx files (${models.join(', ')}); name one with field "model.serializedFile" or onnx.model`;
  throw new ServeError('INVALID_MODEL', `The archive has no model: ${why}, and ${needed}.`);
}

/** @throws {ServeError} INVALID_MODEL naming the file */
export async function findSessionFiles(root: string, config: ModelConfig): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const [name, file] of Object.entries(config.onnx.sessions ?? {})) {
    files[name] = await existing(root, file, `onnx.sessions.${name}`);
  }
  return files;
}

/** @throws {ServeError} INVALID_MODEL naming the file */
export async function checkModels(root: string, files: readonly string[], shownNameOf: (file: string) => string): Promise<void> {
  for (const file of new Set(files)) {
    if (/\.onnx$/i.test(file)) await checkExternalData(file, root, shownNameOf(file));
  }
}

/** What the archive carries and this server leaves alone. */
export async function unusedParts(root: string, manifest: Manifest): Promise<string[]> {
  const names = new Set(await readdir(root));
  const warnings: string[] = [];
  const requirements = manifest.model.requirementsFile ?? (names.has('requirements.txt') ? 'requirements.txt' : undefined);
  if (requirements !== undefined) {
    warnings.push(`${requirements} is not used: Python requirements mean nothing to this server, and it installs nothing.`);
  }
  if (names.has('package.json') && !names.has('node_modules') && (await hasDependencies(join(root, 'package.json')))) {
    warnings.push('package.json names dependencies and there is no node_modules: nothing is installed when a model is loaded.');
  }
  if (manifest.model.envelope !== undefined) {
    warnings.push(`Field "model.envelope" (${manifest.model.envelope}) has no effect.`);
  }
  return warnings;
}

async function hasDependencies(file: string): Promise<boolean> {
  try {
    const { dependencies } = JSON.parse(await readFile(file, 'utf8')) as { dependencies?: object };
    return Object.keys(dependencies ?? {}).length > 0;
  } catch {
    return false;
  }
}

/** @throws {ServeError} INVALID_MODEL */
export function checkRuntime(runtime: string): void {
  if ((runtimes as readonly string[]).includes(runtime)) return;
  throw new ServeError('INVALID_MODEL', `The runtime "${runtime}" is not known; it may be ${runtimes.join(', ')}.`);
}

/** Why a handler cannot do without a model; undefined when it can. */
export function whyModelNeeded(handler: HandlerSpec): string | undefined {
  if (handler.kind === 'module') return undefined;
  return handler.kind === 'bundled'
    ? `the handler ${handler.name} needs one`
    : 'without a handler of its own a model speaks tensors';
}

async function existing(root: string, file: string, field: string): Promise<string> {
  const path = pathInside(root, file, field);
  if ((await stat(path).catch(() => undefined))?.isFile()) return path;
  throw new ServeError('INVALID_MODEL', `${upper(field)} names "${file}", which is not in the archive.`);
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
