import { readFile, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { ArchiveError } from '../archive-error.js';
import { formatExpectations, ownVersion } from '../archive.js';
import { bundleHandler } from '../bundle-handler.js';
import { addExternalData, addExtraFiles, ArchiveFiles } from '../collect-files.js';
import { formatCreatedOn } from '../manifest.js';
import { expectationsFile } from '../provides.js';
import { writeArchive } from '../write-archive.js';
import { formatWorkflowManifest } from './manifest.js';
import { parseWorkflowSpec, type WorkflowSpec, WorkflowSpecError } from './spec.js';

export interface WorkflowArchiveOptions {
  readonly workflowName: string;
  /** YAML with `models:` and `dag:`. */
  readonly specFile: string;
  /** `functions.ts`, `.js` or `.mjs` that exports a function for each node of the dag that is no model. */
  readonly handler?: string;
  /** Comma list of files, folders and `path/inside=file`. */
  readonly extraFiles?: string;
  /** Default the working directory. */
  readonly exportPath?: string;
  /** Overwrite what is there. */
  readonly force?: boolean;
  /** Told what is being done, a line at a time. */
  readonly onProgress?: (line: string) => void;
}

/**
 * Makes a workflow archive: checks the spec, bundles the functions, writes the manifest.
 * @returns absolute path of the archive
 * @throws {ArchiveError} naming the file, option, node or function that is wrong
 */
export async function archiveWorkflow(options: WorkflowArchiveOptions): Promise<{ readonly path: string }> {
  const { workflowName, specFile, force = false } = options;
  const progress = options.onProgress ?? (() => undefined);
  if (workflowName === '' || workflowName.includes('..') || workflowName.startsWith('.') || /[/\\]|\p{Cc}/u.test(workflowName)) {
    throw new ArchiveError(`--workflow-name ${JSON.stringify(workflowName)}: a name has no slashes, no ".." and no leading dot.`);
  }
  const exportPath = resolve(options.exportPath ?? '.');
  if (!(await stat(exportPath).catch(() => undefined))?.isDirectory()) {
    throw new ArchiveError(`--export-path ${exportPath} is no folder; make it first.`);
  }
  const path = join(exportPath, `${workflowName}.war`);
  if (!force && (await stat(path).catch(() => undefined))) {
    throw new ArchiveError(`${path} already exists. Use --force (-f) to overwrite it, or another --export-path.`);
  }
  const spec = await readSpec(specFile);
  const files = new ArchiveFiles();
  files.add(basename(specFile), { source: resolve(specFile) });
  const handler = await addFunctions(files, options, spec, progress);
  if (options.extraFiles !== undefined) await addExtraFiles(files, options.extraFiles);
  await addExternalData(files);
  const manifest = formatWorkflowManifest({
    createdOn: formatCreatedOn(new Date()),
    workflow: { workflowName, specFile: basename(specFile), handler },
    archiverVersion: await ownVersion(),
  });
  files.add('WAR-INF/MANIFEST.json', { content: Buffer.from(manifest) });
  progress(`Writing ${path}`);
  await writeArchive(path, 'default', files.entries(), workflowName, force);
  return { path };
}

async function readSpec(file: string): Promise<WorkflowSpec> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) throw new ArchiveError(`--spec-file names ${file}, which is no file.`);
  try {
    return parseWorkflowSpec(text, file);
  } catch (error) {
    if (error instanceof WorkflowSpecError) throw new ArchiveError(`${error.message}.`);
    throw error;
  }
}

/** @returns what the manifest says */
async function addFunctions(
  files: ArchiveFiles,
  { handler }: WorkflowArchiveOptions,
  spec: WorkflowSpec,
  progress: (line: string) => void,
): Promise<string | undefined> {
  const functions = spec.nodes.filter(({ kind }) => kind === 'function').map(({ name }) => name);
  if (handler === undefined) {
    if (functions.length === 0) return undefined;
    throw new ArchiveError(
      `The nodes ${functions.join(', ')} are no models, so they are functions, and there is no --handler that exports them.`,
    );
  }
  const extension = extname(handler).toLowerCase();
  if (extension === '.py') {
    throw new ArchiveError(
      `--handler ${handler} is Python, and the server runs functions in JavaScript. Write it as ${basename(handler, '.py')}.ts; docs/workflows.md shows how.`,
    );
  }
  if (!['.ts', '.mts', '.tsx', '.js', '.mjs', '.cjs'].includes(extension)) {
    throw new ArchiveError(`--handler ${handler}: functions are in a .ts, .js or .mjs file.`);
  }
  progress(`Bundling ${handler}`);
  const bundled = await bundleHandler(handler, functions);
  files.add(bundled.fileName, { content: bundled.content });
  files.add(`WAR-INF/${expectationsFile}`, { content: Buffer.from(formatExpectations(bundled.expects)) });
  return bundled.fileName;
}
