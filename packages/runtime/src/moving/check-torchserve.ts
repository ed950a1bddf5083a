import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { devNull, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { loadConfig } from '../config/load-config.js';
import { decodeProperties, parseProperties } from '../config/properties.js';
import type { LoadedConfig } from '../config/server-config.js';
import { findConfigFile, findStore, type GivenParts } from './find-parts.js';
import { inspectModel, type InspectOptions } from './inspect-model.js';
import { inspectWorkflow } from './inspect-workflow.js';
import { findMetricsFile, metricsFindings } from './metrics-file.js';
import { countByStatus, finding, type MovingFinding, type MovingReport, type MovingSection } from './report.js';
import { securityFindings } from './security.js';
import { defaultFindings, settingFindings } from './settings.js';
import { serveCommands } from './serve-commands.js';
import { newestSnapshot, snapshotFindings } from './snapshots.js';
import { writeProject } from './write-project.js';

export interface CheckTorchServeOptions extends GivenParts {
  /** Folder with config.properties, model store and logs of a TorchServe. */
  readonly directory: string;
  /** Folder for what is to be worked on; nothing is written without it. */
  readonly write?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

const defaultOutput = 'moved';

/**
 * Reads a TorchServe directory and says of each part what becomes of it. Nothing of it is run or changed.
 * @throws {Error} when the directory cannot be read
 */
export async function checkTorchServe(options: CheckTorchServeOptions): Promise<MovingReport> {
  const { directory, write } = options;
  const root = resolve(directory);
  const configFile = findConfigFile(root, options.tsConfig) ?? (await newestSnapshot(root));
  const env = withoutOwnVariables(options.env);
  const texts = configFile === undefined ? new Map<string, string>() : await readTexts(configFile);
  const store = findStore(root, options.modelStore, texts.get('model_store')?.trim(), 'model');
  const workflowStore = findStore(root, options.workflowStore, texts.get('workflow_store')?.trim(), 'workflow');
  const loaded = loadConfig({
    argv: {
      tsConfig: configFile === undefined ? devNull : relative(root, configFile),
      ...(store === undefined ? {} : { modelStore: store }),
    },
    env,
    cwd: root,
  });
  const inspect: InspectOptions = {
    env: {
      modelStore: workflowStore ?? store,
      tempDirectory: tmpdir(),
      allowedUrls: [],
      limits: { maxArchiveSize: loaded.config.maxArchiveSize, maxArchiveRatio: loaded.config.maxArchiveRatio },
    },
    defaultHandler: loaded.config.defaultServiceHandler,
    places: { directory, output: write ?? defaultOutput, written: write !== undefined },
    ...(write === undefined ? {} : { write: (folder, from, files) => writeProject(write, folder, from, files) }),
  };
  const models = await modelFindings(store, inspect);
  const workflows = await workflowFindings(workflowStore, inspect);
  const snapshots = await snapshotFindings(root, store, env);
  const metricsFile = findMetricsFile(root, texts.has('metrics_config') ? loaded.config.metricsConfig : undefined);
  const sections: MovingSection[] = [
    { title: title('Settings', root, configFile), findings: settingSection(root, loaded, texts, configFile) },
    { title: 'Defaults that changed', findings: defaultFindings(texts) },
    { title: 'Security', findings: await securityFindings(root, loaded, texts) },
    { title: title('Models', root, store), findings: models },
    { title: title('Workflows', root, workflowStore), findings: workflows },
    { title: 'Snapshots', findings: snapshots },
    { title: 'Metrics', findings: metricsFindings(metricsFile) },
  ];
  const serve = serveCommands({
    models: readyFiles(models, store),
    workflows: readyFiles(workflows, workflowStore),
    changed: [...models, ...workflows].some(({ status }) => status === 'work'),
    modelStore: store,
    workflowStore: workflows.length > 0 || texts.has('workflow_store') ? workflowStore : undefined,
    configFile,
    metricsFile: metricsFile.moved ? metricsFile.path : undefined,
    output: inspect.places.output,
  });
  return { directory, sections, summary: countByStatus(sections), serve };
}

function readyFiles(findings: readonly MovingFinding[], store: string | undefined): string[] {
  if (store === undefined) return [];
  return findings
    .filter(({ status }) => status === 'works')
    .map(({ subject }) => join(store, subject))
    .filter((path) => existsSync(path));
}

function title(name: string, root: string, path: string | undefined): string {
  return path === undefined ? name : `${name} (${relative(root, path) || '.'})`;
}

function settingSection(
  root: string,
  loaded: LoadedConfig,
  texts: ReadonlyMap<string, string>,
  file: string | undefined,
): MovingFinding[] {
  if (file === undefined) return [finding('works', 'config.properties', 'there is none, so every setting has its default')];
  const fromEnvironment = texts.get('enable_envvars_config')?.trim().toLowerCase() === 'true';
  const note = 'TS_ variables replace keys; "onnxserve check" in the environment of the server shows what comes of it';
  return [
    ...settingFindings(root, loaded, texts),
    ...(fromEnvironment ? [finding('differs', 'enable_envvars_config', note)] : []),
  ];
}

async function modelFindings(store: string | undefined, options: InspectOptions): Promise<MovingFinding[]> {
  if (store === undefined) return [finding('error', 'model store', 'not found; name it with --model-store')];
  const findings: MovingFinding[] = [];
  for (const name of (await readdir(store)).sort()) {
    const path = join(store, name);
    if (!name.startsWith('.') && (await isModel(path))) findings.push(await inspectModel(path, options));
  }
  return findings.length > 0 ? findings : [finding('works', 'model store', 'no archives in it')];
}

async function isModel(path: string): Promise<boolean> {
  const info = await stat(path).catch(() => undefined);
  if (info?.isFile()) return /\.(mar|model|tar\.gz|tgz)$/i.test(path);
  if (!info?.isDirectory()) return false;
  return (await readdir(path)).some((name) => /^mar-inf$/i.test(name));
}

async function workflowFindings(store: string | undefined, options: InspectOptions): Promise<MovingFinding[]> {
  if (store === undefined) return [];
  const names = (await readdir(store)).filter((name) => /\.war$/i.test(name)).sort();
  const findings: MovingFinding[] = [];
  for (const name of names) findings.push(await inspectWorkflow(join(store, name), options));
  return findings;
}

async function readTexts(file: string): Promise<Map<string, string>> {
  if (!existsSync(file)) throw new Error(`there is no configuration file ${file}`);
  const { properties } = parseProperties(decodeProperties(await readFile(file)));
  return new Map([...properties].map(([key, { value }]) => [key, value]));
}

/** The settings of whoever runs the check are not those of the server that moves. */
function withoutOwnVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(TS|ONNXSERVE)_|^(LOG|METRICS)_LOCATION$/.test(name)));
}
