import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseWorkflowManifest } from '@onnxserve/archiver/workflow-manifest';
import { parseWorkflowSpec } from '@onnxserve/archiver/workflow-spec';
import { toServeError } from '../domain/errors.js';
import { pathInside } from '../registry/entry-path.js';
import { openWorkflow } from '../registry/open-workflow.js';
import { acquireTempFolder } from '../registry/temp-space.js';
import { unpack } from '../registry/unpack.js';
import type { InspectOptions } from './inspect-model.js';
import { outlinePython } from './python-outline.js';
import { finding, type MovingFinding, shellWord } from './report.js';

/** Says what becomes of a workflow archive. @param path absolute, inside the store of `options` */
export async function inspectWorkflow(path: string, options: InspectOptions): Promise<MovingFinding> {
  const subject = basename(path);
  let reason: Error;
  try {
    const archive = await openWorkflow({ url: subject }, options.env);
    await archive.close();
    const nodes = archive.spec.nodes.map(({ name, kind }) => `${name} (${kind})`).join(', ');
    return finding('works', subject, `workflow "${archive.name}": ${nodes}`);
  } catch (error) {
    reason = toServeError(error);
  }
  try {
    return await withPython(path, subject, reason, options);
  } catch {
    return finding('error', subject, reason.message);
  }
}

/** A workflow whose functions are in Python is all right but for them. @throws when there is more to it */
async function withPython(
  path: string,
  subject: string,
  reason: Error,
  { env, places, write }: InspectOptions,
): Promise<MovingFinding> {
  const temp = await acquireTempFolder(env.tempDirectory);
  try {
    await unpack(path, subject, temp.path, env.limits);
    const { workflow } = parseWorkflowManifest(await readFile(join(temp.path, 'WAR-INF', 'MANIFEST.json'), 'utf8'));
    const { handler, specFile, workflowName = subject.replace(/\.war$/, '') } = workflow;
    if (handler === undefined || !/\.py(:|$)/.test(handler)) throw reason;
    const source = await readFile(pathInside(temp.path, handler, 'field "workflow.handler"'), 'utf8');
    const { functions } = outlinePython(source);
    const spec = parseWorkflowSpec(
      await readFile(pathInside(temp.path, specFile, 'field "workflow.specFile"'), 'utf8'),
      specFile,
    );
    const nodes = spec.nodes.filter(({ kind }) => kind === 'function').map((node) => node.name);
    const name = workflowName.replaceAll(/[^\w.-]/g, '_');
    const folder = `${places.output}/${name}`;
    const text = workflowSkeleton(handler, nodes);
    const notes = write ? await write(name, temp.path, [{ name: 'functions.ts', text }]) : [];
    const word = (file: string) => shellWord(`${folder}/${file}`);
    return finding('work', subject, `workflow "${workflowName}" needs its functions in TypeScript`, {
      notes: [`${handler} defines ${functions.map((it) => it.name).join(', ') || 'no functions'}`, ...notes],
      steps: [
        ...(places.written
          ? []
          : [
              {
                what: `Unpack it into ${folder}, with functions.ts (once for all models).`,
                commands: [
                  `onnxserve check --from-torchserve ${shellWord(places.directory)} --write ${shellWord(places.output)}`,
                ],
              },
            ]),
        {
          what: `Write ${folder}/functions.ts in the place of ${handler}; docs/workflows.md shows what functions get.`,
          commands: [],
        },
        {
          what: 'Make the new archive.',
          commands: [
            `onnxserve archive-workflow --workflow-name ${shellWord(workflowName)} --spec-file ${word(specFile)} --handler ${word('functions.ts')} --export-path ${shellWord(`${places.output}/model-store`)} --force`,
          ],
        },
      ],
    });
  } finally {
    await temp.remove();
  }
}

function workflowSkeleton(file: string, nodes: readonly string[]): string {
  const made = nodes.map(
    (name) =>
      `export const ${name.replaceAll(/\W/g, '_')} = workflowFunction((request) => {\n` +
      `  throw new Error(\`${name} is not written yet; it got \${request.body().length} bytes\`);\n});\n`,
  );
  return `// From ${file.replaceAll(/\p{Cc}/gu, ' ')}.\nimport { workflowFunction } from '@onnxserve/handler-kit';\n\n${made.join('\n')}`;
}
