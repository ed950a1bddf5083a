import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ManifestError } from '@onnxserve/archiver/manifest';
import { parseWorkflowManifest, type WorkflowManifest } from '@onnxserve/archiver/workflow-manifest';
import { parseWorkflowSpec, type WorkflowSpec, WorkflowSpecError } from '@onnxserve/archiver/workflow-spec';
import { ServeError } from '../domain/errors.js';
import type { ArchiveEnvironment } from './archive-environment.js';
import { pathInside } from './entry-path.js';
import { resolveHandler } from './handler-spec.js';
import { locate } from './locate.js';
import { checkModelName } from './model-name.js';
import { checkExpectations } from './provided-versions.js';
import { acquireTempFolder } from './temp-space.js';
import { unpack } from './unpack.js';

/** A checked, unpacked workflow archive. */
export interface WorkflowArchive {
  readonly name: string;
  /** The url it was registered by. */
  readonly url: string;
  readonly spec: WorkflowSpec;
  /** Module with the functions, absolute; undefined when the workflow has none. */
  readonly functions: string | undefined;
  /** Unpacked root, absolute. */
  readonly directory: string;
  /** Removes the unpacked copy and, when it was downloaded, the downloaded file. */
  dispose(): Promise<void>;
  /** Removes only the unpacked copy. */
  close(): Promise<void>;
}

/**
 * Finds, fetches, unpacks and checks a workflow archive. Nothing is left behind when it fails.
 * @param env its model store is the workflow store
 * @throws {ServeError} WORKFLOW_NOT_FOUND (no such archive, url not allowed), DOWNLOAD_FAILED, INVALID_WORKFLOW, INVALID_DAG, BAD_REQUEST
 */
export async function openWorkflow(
  { url, workflowName }: { readonly url: string; readonly workflowName?: string | undefined },
  env: ArchiveEnvironment,
): Promise<WorkflowArchive> {
  if (workflowName !== undefined) checkModelName(workflowName);
  const located = await asWorkflow(() => locate({ url }, env));
  const temp = await acquireTempFolder(env.tempDirectory);
  const close = async () => await temp.remove();
  const dispose = async () => {
    await close();
    if (located.downloaded) await rm(located.path, { force: true });
  };
  try {
    if (located.kind === 'folder') throw invalid(`"${url}" is a folder; a workflow archive is a .war file.`);
    await asWorkflow(() => unpack(located.path, located.shownName, temp.path, env.limits));
    return { ...(await read(temp.path, located.shownName, workflowName, env)), url, directory: temp.path, dispose, close };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Finds a workflow archive and leaves it where it is. @throws {ServeError} WORKFLOW_NOT_FOUND */
export async function locateWorkflow(url: string, env: ArchiveEnvironment): Promise<void> {
  await asWorkflow(() => locate({ url }, env));
}

async function read(
  root: string,
  shownName: string,
  given: string | undefined,
  env: ArchiveEnvironment,
): Promise<Pick<WorkflowArchive, 'name' | 'spec' | 'functions'>> {
  const { workflow } = await readManifest(root, shownName);
  const name = given ?? workflow.workflowName;
  if (name === undefined) {
    throw invalid(`The manifest of "${shownName}" has no field "workflow.workflowName", and no workflow_name was given.`);
  }
  checkModelName(name);
  const spec = await readSpec(root, workflow.specFile, shownName);
  const functions = spec.nodes.filter(({ kind }) => kind === 'function').map((node) => node.name);
  if (functions.length === 0) return { name, spec, functions: undefined };
  if (workflow.handler === undefined) {
    throw invalid(
      `The nodes ${functions.join(', ')} of "${shownName}" are no models, so they are functions, and its manifest has no field "workflow.handler".`,
    );
  }
  await asWorkflow(() => checkExpectations(join(root, 'WAR-INF'), shownName, env.provides));
  const handler = await asWorkflow(() => resolveHandler(root, workflow.handler!, 'field "workflow.handler"'));
  if (handler.kind !== 'module') throw invalid(`Field "workflow.handler" of "${shownName}" names no file with functions.`);
  return { name, spec, functions: handler.file };
}

async function readManifest(root: string, shownName: string): Promise<WorkflowManifest> {
  const text = await readFile(join(root, 'WAR-INF', 'MANIFEST.json'), 'utf8').catch(() => undefined);
  if (text === undefined) throw invalid(`The archive "${shownName}" has no WAR-INF/MANIFEST.json.`);
  try {
    return parseWorkflowManifest(text);
  } catch (error) {
    if (error instanceof ManifestError) throw invalid(`WAR-INF/MANIFEST.json of "${shownName}": ${error.message}.`);
    throw error;
  }
}

async function readSpec(root: string, file: string, shownName: string): Promise<WorkflowSpec> {
  const path = pathInside(root, file, 'field "workflow.specFile"');
  if (!(await stat(path).catch(() => undefined))?.isFile()) {
    throw invalid(`Field "workflow.specFile" of "${shownName}" names "${file}", which is not in the archive.`);
  }
  try {
    return parseWorkflowSpec(await readFile(path, 'utf8'), file);
  } catch (error) {
    if (!(error instanceof WorkflowSpecError)) throw error;
    throw new ServeError(error.part === 'dag' ? 'INVALID_DAG' : 'INVALID_WORKFLOW', `${error.message}.`);
  }
}

/** The same errors under the names that clients of workflows know. */
async function asWorkflow<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof ServeError)) throw error;
    const code = { MODEL_NOT_FOUND: 'WORKFLOW_NOT_FOUND', NOT_ALLOWED: 'WORKFLOW_NOT_FOUND', INVALID_MODEL: 'INVALID_WORKFLOW' }[
      error.code as string
    ] as 'WORKFLOW_NOT_FOUND' | 'INVALID_WORKFLOW' | undefined;
    throw code === undefined ? error : new ServeError(code, error.message, { reason: error.reason, cause: error });
  }
}

function invalid(message: string): ServeError {
  return new ServeError('INVALID_WORKFLOW', message);
}
