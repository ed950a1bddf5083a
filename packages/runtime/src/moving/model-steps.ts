import type { Manifest } from '@onnxserve/archiver/manifest';
import type { ExportPlan } from './export-script.js';
import { type MovingStep, type ProjectFile, shellWord } from './report.js';

/** What has to be made for one model. */
export interface ModelPlan {
  /** Its folder below the output folder. */
  readonly folder: string;
  readonly manifest: Manifest;
  readonly name: string;
  /** Undefined: the archive has its ONNX model, or needs none. */
  readonly exported: ExportPlan | undefined;
  /** The archive's own ONNX model; undefined: the exported one, or none. */
  readonly onnxFile: string | undefined;
  readonly handler:
    | { readonly kind: 'bundled'; readonly name: string }
    /** `written`: nothing is left to do in it. */
    | { readonly kind: 'file'; readonly text: string; readonly written: boolean; readonly from: string }
    | { readonly kind: 'javascript'; readonly file: string };
  /** Files and folders of the archive that go into the new one, relative. */
  readonly extraFiles: readonly string[];
}

/** Where things are, as the commands spell it. */
export interface MovingPlaces {
  /** The folder that was checked. */
  readonly directory: string;
  /** Where `--write` puts the projects. */
  readonly output: string;
  /** Whether `--write` was given. */
  readonly written: boolean;
}

/** The files that `--write` adds to what the archive holds. */
export function projectFiles({ exported, handler }: ModelPlan): ProjectFile[] {
  return [
    ...(exported?.kind === 'script' ? [{ name: 'export.py', text: exported.script }] : []),
    ...(handler.kind === 'file' ? [{ name: 'handler.ts', text: handler.text }] : []),
  ];
}

export function modelSteps(plan: ModelPlan, places: MovingPlaces): MovingStep[] {
  const folder = `${places.output}/${plan.folder}`;
  return [
    ...(places.written ? [] : [unpackStep(plan, places, folder)]),
    ...(plan.exported === undefined ? [] : [exportStep(plan.exported, folder)]),
    ...(plan.handler.kind === 'file' && !plan.handler.written ? [handlerStep(plan.handler, folder)] : []),
    { what: 'Make the new archive.', commands: [archiveCommand(plan, places, folder)] },
  ];
}

function unpackStep(plan: ModelPlan, { directory, output }: MovingPlaces, folder: string): MovingStep {
  const made = projectFiles(plan).map(({ name }) => name);
  return {
    what: `Unpack it into ${folder}${made.length === 0 ? '' : `, with ${made.join(' and ')}`} (once for all models).`,
    commands: [`onnxserve check --from-torchserve ${shellWord(directory)} --write ${shellWord(output)}`],
  };
}

function exportStep(plan: ExportPlan, folder: string): MovingStep {
  switch (plan.kind) {
    case 'script': {
      const check = plan.check.length === 0 ? '' : ` First set what only you know: ${plan.check.join('; ')}.`;
      return {
        what: `Export ${plan.what} to ${folder}/model.onnx.${check}`,
        commands: [`python3 -m pip install ${plan.packages.join(' ')}`, `python3 ${shellWord(`${folder}/export.py`)}`],
        code: plan.script,
      };
    }
    case 'optimum': {
      const task = plan.task === undefined ? '' : ` --task ${plan.task}`;
      return {
        what: `Export ${plan.what} to ${folder}/model.onnx.${plan.task === undefined ? ' Add --task if it cannot be inferred.' : ''}`,
        commands: [
          'python3 -m pip install "optimum-onnx[onnxruntime]"',
          `optimum-cli export onnx --model ${shellWord(folder)}${task} ${shellWord(folder)}`,
        ],
      };
    }
    case 'none':
      return { what: `Get ${folder}/model.onnx: the archive has ${plan.what}; ${plan.why}.`, commands: [] };
  }
}

function handlerStep(handler: ModelPlan['handler'] & { kind: 'file' }, folder: string): MovingStep {
  return {
    what: `Write ${folder}/handler.ts in the place of ${handler.from}; docs/migration.md has both side by side.`,
    commands: [],
  };
}

function archiveCommand(plan: ModelPlan, { output }: MovingPlaces, folder: string): string {
  const { manifest, exported, onnxFile, handler, extraFiles } = plan;
  const model = onnxFile ?? (exported === undefined ? undefined : 'model.onnx');
  const file = (name: string) => shellWord(`${folder}/${name}`);
  const words = [`--model-name ${shellWord(plan.name)}`, `--version ${shellWord(manifest.model.modelVersion)}`];
  if (model !== undefined) words.push(`--serialized-file ${file(model)}`);
  switch (handler.kind) {
    case 'bundled':
      if (handler.name !== 'tensor') words.push(`--handler ${handler.name}`);
      break;
    case 'file':
      words.push(`--handler ${file('handler.ts')}`);
      break;
    case 'javascript':
      words.push(`--handler ${file(handler.file)}`);
  }
  if (extraFiles.length > 0)
    words.push(`--extra-files ${shellWord(extraFiles.map((name) => `${name}=${folder}/${name}`).join(','))}`);
  if (manifest.model.configFile !== undefined) words.push(`--config-file ${file(manifest.model.configFile)}`);
  return `onnxserve archive ${words.join(' ')} --export-path ${shellWord(`${output}/model-store`)} --force`;
}
