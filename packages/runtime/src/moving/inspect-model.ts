import { readdir, readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Manifest } from '@onnxserve/archiver/manifest';
import { parseModelConfig } from '../config/model-config-parser.js';
import { ServeError, toServeError } from '../domain/errors.js';
import type { ArchiveEnvironment } from '../registry/archive-environment.js';
import { pathInside } from '../registry/entry-path.js';
import { readArchiveLayout } from '../registry/layout.js';
import { checkModelName } from '../registry/model-name.js';
import { openArchive } from '../registry/open-archive.js';
import { acquireTempFolder } from '../registry/temp-space.js';
import { unpack } from '../registry/unpack.js';
import { type ExportPlan, planExport } from './export-script.js';
import { bundledSkeleton, handlerSkeleton } from './handler-skeleton.js';
import { type ModelPlan, modelSteps, type MovingPlaces, projectFiles } from './model-steps.js';
import { readPythonHandler } from './python-handler.js';
import { counterpartOf } from './python-packages.js';
import { readRequirements } from './requirements.js';
import { finding, type MovingFinding, type ProjectFile } from './report.js';
import { torchserveHandlers } from './torchserve-handlers.js';
import { type Weights, weightsOf } from './weights.js';

export interface InspectOptions {
  readonly env: ArchiveEnvironment;
  readonly defaultHandler: string | undefined;
  readonly places: MovingPlaces;
  /** Puts a model's files where its owner works on them. @returns what to tell about that */
  readonly write?: (folder: string, root: string, files: readonly ProjectFile[]) => Promise<readonly string[]>;
}

/** What stands in the way of a model, as far as it was found. */
interface Needs {
  readonly notes: string[];
  readonly what: string[];
}

/**
 * Says what becomes of one archive or folder of a model store.
 * @param path absolute
 */
export async function inspectModel(path: string, options: InspectOptions): Promise<MovingFinding> {
  const subject = basename(path);
  try {
    if ((await stat(path)).isDirectory()) return await inspectRoot(path, subject, options);
    const temp = await acquireTempFolder(options.env.tempDirectory);
    try {
      await unpack(path, subject, temp.path, options.env.limits);
      return await inspectRoot(temp.path, subject, options);
    } finally {
      await temp.remove();
    }
  } catch (error) {
    return finding('error', subject, toServeError(error).message);
  }
}

async function inspectRoot(unpacked: string, subject: string, options: InspectOptions): Promise<MovingFinding> {
  const layout = await readArchiveLayout(unpacked, subject);
  if (layout.kind === 'bare') throw new TypeError('an archive has a manifest');
  const { manifest, root } = layout;
  const stem = subject.replace(/\.(mar|model|tar\.gz|tgz|zip)$/i, '');
  const name = manifest.model.modelName ?? stem;
  const openable = await tryToOpen(root, name, options);
  if (openable.ok) {
    const notes = [
      ...openable.notes,
      ...(manifest.model.modelName === undefined ? [`it has no name of its own; load it as ${name}=${subject}`] : []),
    ];
    return finding('works', subject, `model "${name}" version ${manifest.model.modelVersion}, ${openable.by}`, { notes });
  }
  const needs: Needs = { what: [], notes: await sharedNotes(root, manifest, name) };
  const plan = await planModel(root, manifest, name, needs, options.defaultHandler);
  // Nothing that moving could mend: the archive is broken on its own.
  if (plan === undefined) throw openable.error;
  const wrote = options.write ? await options.write(plan.folder, root, projectFiles(plan)) : [];
  return finding('work', subject, `model "${name}" version ${manifest.model.modelVersion} needs ${needs.what.join(' and ')}`, {
    notes: [...needs.notes, ...wrote],
    steps: modelSteps(plan, options.places),
  });
}

type Opened =
  | { readonly ok: true; readonly by: string; readonly notes: readonly string[] }
  | { readonly ok: false; readonly error: ServeError };

/** What the server itself says of it. */
async function tryToOpen(root: string, name: string, { env, defaultHandler }: InspectOptions): Promise<Opened> {
  try {
    const input = { url: root, modelName: name, trusted: true, ...(defaultHandler === undefined ? {} : { defaultHandler }) };
    const archive = await openArchive(input, env);
    await (archive.close?.() ?? archive.dispose());
    const { handler } = archive;
    const by =
      handler.kind === 'module'
        ? basename(handler.file)
        : handler.kind === 'bundled'
          ? `bundled handler ${handler.name}`
          : 'tensors in, tensors out';
    return { ok: true, by, notes: archive.warnings };
  } catch (error) {
    return { ok: false, error: toServeError(error) };
  }
}

async function planModel(
  root: string,
  manifest: Manifest,
  name: string,
  needs: Needs,
  defaultHandler: string | undefined,
): Promise<ModelPlan | undefined> {
  const { serializedFile } = manifest.model;
  const weights =
    serializedFile === undefined ? undefined : await weightsOf(pathInside(root, serializedFile, 'field "model.serializedFile"'));
  const handler = await planHandler(root, manifest, needs, defaultHandler);
  if (handler === undefined && (weights === undefined || weights.kind === 'onnx')) return undefined;
  const exported = await planModelExport(root, manifest, weights, handler?.usesModel ?? true, needs);
  const onnxFile = weights?.kind === 'onnx' ? serializedFile : undefined;
  if (handler === undefined && exported === undefined) return undefined;
  return {
    folder: folderName(name),
    manifest,
    name,
    exported,
    onnxFile,
    handler: handler?.plan ?? { kind: 'bundled', name: 'tensor' },
    extraFiles: await extraFiles(root, manifest),
  };
}

async function planModelExport(
  root: string,
  manifest: Manifest,
  weights: Weights | undefined,
  usesModel: boolean,
  needs: Needs,
): Promise<ExportPlan | undefined> {
  if (weights?.kind === 'onnx' || (weights === undefined && !usesModel)) return undefined;
  const plan = await planExport(root, manifest, weights);
  needs.what.unshift('an ONNX export');
  if (plan.kind === 'none') needs.notes.push(`the archive has ${plan.what}: ${plan.why}`);
  else needs.notes.push(`${manifest.model.serializedFile ?? 'its folder'} is ${plan.what}`);
  return plan;
}

interface HandlerPlan {
  readonly plan: ModelPlan['handler'];
  /** Whether there is a model behind it for all that is known. */
  readonly usesModel: boolean;
}

const modelPackages = [
  'torch',
  'torchvision',
  'transformers',
  'onnxruntime',
  'tensorflow',
  'sklearn',
  'diffusers',
  'sentence_transformers',
  'vllm',
];

/** @returns undefined when nothing is known of the handler */
async function planHandler(
  root: string,
  { model }: Manifest,
  needs: Needs,
  defaultHandler: string | undefined,
): Promise<HandlerPlan | undefined> {
  const text = model.handler ?? defaultHandler;
  if (text === undefined) return { plan: { kind: 'bundled', name: 'tensor' }, usesModel: true };
  if (/\.(mjs|cjs|js)(:|$)/.test(text)) return { plan: { kind: 'javascript', file: text }, usesModel: true };
  const known = Object.hasOwn(torchserveHandlers, text) ? torchserveHandlers[text] : undefined;
  if (known) {
    needs.notes.push(`handler ${text}: ${known.does}`, ...known.differs);
    const skeleton = bundledSkeleton(text);
    if (known.bundled !== undefined) return { plan: { kind: 'bundled', name: known.bundled }, usesModel: true };
    needs.what.push('a TypeScript handler');
    const from = `TorchServe's ${text}`;
    if (skeleton !== undefined) return { plan: { kind: 'file', text: skeleton, written: true, from }, usesModel: true };
  }
  const python = await readPythonHandler(root, text);
  if (python === undefined) {
    if (known === undefined) return undefined;
    const bare = {
      file: text,
      entry: `TorchServe's ${text}`,
      stages: [],
      packages: [],
      ownFiles: [],
      idioms: [],
      fields: [],
      foreignBases: [],
    };
    return { plan: { kind: 'file', text: handlerSkeleton(bare, []), written: false, from: bare.entry }, usesModel: true };
  }
  needs.what.push('a TypeScript handler');
  const stages = python.stages.length === 0 ? 'no stage of its own' : python.stages.join(', ');
  needs.notes.push(`${python.file}: ${python.entry} defines ${stages}`);
  if (python.foreignBases.length > 0)
    needs.notes.push(`${python.foreignBases.join(', ')} is not in the archive: what it does besides was not read`);
  if (python.ownFiles.length > 0) needs.notes.push(`it imports ${python.ownFiles.join(', ')} of the archive`);
  for (const name of python.packages.filter((it) => it !== 'ts'))
    needs.notes.push(`${name}: ${counterpartOf(name) ?? 'look for a package of npm, or write it'}`);
  for (const { python: from, typescript } of python.idioms) needs.notes.push(`${from}: ${typescript}`);
  const json = (await readdir(root)).filter((file) => file.endsWith('.json') && file !== 'config.json').sort();
  return {
    plan: { kind: 'file', text: handlerSkeleton(python, json), written: false, from: `${python.file} (${python.entry})` },
    usesModel: model.modelFile !== undefined || python.packages.some((it) => modelPackages.includes(it)),
  };
}

/** What the manifest and the model config say beside handler and model. */
async function sharedNotes(root: string, { runtime, model }: Manifest, name: string): Promise<string[]> {
  const notes: string[] = [];
  if (runtime === 'LSP') notes.push('runtime LSP: the C++ backend and its handler have no place here');
  if (model.envelope !== undefined)
    notes.push(`envelope ${model.envelope} in the manifest never had an effect; service_envelope of config.properties has one`);
  const names = await readdir(root);
  const requirements = model.requirementsFile ?? names.find((it) => it === 'requirements.txt');
  if (requirements !== undefined) notes.push(...(await readRequirements(root, requirements)));
  if (model.configFile === undefined) return notes;
  const text = await readFile(pathInside(root, model.configFile, 'field "model.configFile"'), 'utf8').catch(() => undefined);
  if (text === undefined) return [...notes, `${model.configFile} is not in the archive`];
  const { problems, config } = parseModelConfig(text, model.configFile, name);
  for (const { where, message } of problems)
    notes.push(where === undefined || message.startsWith(where) ? message : `${where}: ${message}`);
  if (config.sequenceBatching === true)
    notes.push('sequenceBatching: a handler keeps the state of a sequence in `startSequence`, see docs/sequences.md');
  if (config.continuousBatching === true) notes.push('continuousBatching: such a handler has `step`, see docs/sequences.md');
  if ('torchrun' in config.free || /^(pp|tp|pptp|custom)$/.test(config.parallelType ?? ''))
    notes.push('its workers shared the model over several GPUs; here the whole model has to fit one device');
  return notes;
}

/** What goes along: all but Python, the old model and what the archiver writes itself. */
async function extraFiles(root: string, { runtime, model }: Manifest): Promise<string[]> {
  const left = new Set([
    model.serializedFile,
    model.modelFile,
    model.configFile,
    model.requirementsFile,
    model.handler?.split(':')[0],
    'requirements.txt',
    '__pycache__',
  ]);
  const names = (await readdir(root)).sort();
  return names.filter(
    (name) =>
      !left.has(name) &&
      !/^mar-inf$/i.test(name) &&
      !/\.(py|pyc)$/.test(name) &&
      !(runtime === 'LSP' && name.endsWith('.so')) &&
      !/[,=]/.test(name),
  );
}

function folderName(name: string): string {
  try {
    checkModelName(name);
  } catch {
    return 'model';
  }
  return name.replaceAll(/[^\w.-]/g, '_');
}
