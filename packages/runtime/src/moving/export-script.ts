import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Manifest } from '@onnxserve/archiver/manifest';
import { modelClasses } from './python-handler.js';
import type { Weights } from './weights.js';

/** How a model gets into ONNX. */
export type ExportPlan =
  | {
      readonly kind: 'script';
      /** What the weights are, for people. */
      readonly what: string;
      readonly packages: readonly string[];
      /** `export.py`, run in the folder of the archive's files; writes model.onnx. */
      readonly script: string;
      /** Things in the script that only its reader can know. */
      readonly check: readonly string[];
    }
  /** A folder of Hugging Face's form, for optimum. */
  | { readonly kind: 'optimum'; readonly what: string; readonly task: string | undefined }
  /** Only the source of the model helps. */
  | { readonly kind: 'none'; readonly what: string; readonly why: string };

const inputShapes: Readonly<Record<string, string>> = {
  image_classifier: '2, 3, 224, 224',
  image_segmenter: '2, 3, 224, 224',
};

/**
 * @param root unpacked archive
 * @param weights of the manifest's serializedFile; undefined when it names none
 */
export async function planExport(root: string, { model }: Manifest, weights: Weights | undefined): Promise<ExportPlan> {
  const file = model.serializedFile ?? '';
  const huggingFace = await huggingFaceConfig(root);
  if (
    huggingFace &&
    (weights === undefined || weights.kind === 'state-dict' || weights.kind === 'safetensors') &&
    model.modelFile === undefined
  )
    return { kind: 'optimum', what: `a ${huggingFace.type} of Hugging Face`, task: huggingFace.task };
  const detector = model.handler === 'object_detector';
  const shape = inputShapes[model.handler ?? ''];
  const example = detector
    ? ['example = [torch.rand(3, 480, 640)]  # one picture, RGB from 0 to 1']
    : [
        `example = torch.randn(${shape ?? '2, 3, 224, 224'})${shape === undefined ? '  # the shape and type that the model gets, two rows' : ''}`,
      ];
  const check =
    shape === undefined && !detector
      ? ['the shape and type of `example`, one more argument for each further input of the model']
      : [];
  switch (weights?.kind) {
    case undefined:
      return {
        kind: 'none',
        what: 'no serializedFile',
        why: 'the handler itself gets its model; export that one to ONNX where it comes from',
      };
    case 'onnx':
      throw new TypeError('an ONNX model needs no export');
    case 'torchscript': {
      // Seen with torchvision's: the exporter stops at a class of the scripted module.
      if (detector)
        return {
          kind: 'none',
          what: 'a detector in TorchScript',
          why: 'export it from its class and weights, as docs/migration.md shows',
        };
      const load = `model = torch.jit.load(${python(file)}, map_location="cpu").eval()`;
      const axes = 'dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},';
      return script('TorchScript', [load], example, exportCall('dynamo=False', axes, false), check);
    }
    case 'exported-program': {
      const load = [`program = torch.export.load(${python(file)})`];
      const call = ['torch.onnx.export(program, f="model.onnx", dynamo=True, input_names=["input"], output_names=["output"])'];
      return script('a program of torch.export', load, [], call, ['that the program was exported with a free first dimension']);
    }
    case 'pickled-module': {
      const own = weights.classes.length === 0 ? '' : `  # needs ${weights.classes.join(', ')}`;
      const sources = weights.classes.length === 0 ? [] : [`put the source of ${weights.classes.join(', ')} beside it`];
      const load = [
        '# A pickle runs code when it is loaded: only do this with a file you trust.',
        `model = torch.load(${python(file)}, map_location="cpu", weights_only=False).eval()${own}`,
      ];
      return script('a pickled module', load, example, eagerCall(detector), [...sources, ...check]);
    }
    case 'state-dict':
    case 'safetensors': {
      const what = weights.kind === 'safetensors' ? 'weights in safetensors' : 'a state dict';
      if (model.modelFile === undefined)
        return { kind: 'none', what, why: 'the archive names no modelFile with the class that the weights belong to' };
      const module = model.modelFile.split(/[/\\]/).at(-1)!.replace(/\.py$/, '');
      if (!/^[A-Za-z_]\w*$/.test(module))
        return { kind: 'none', what, why: `the modelFile ${JSON.stringify(model.modelFile)} cannot be imported` };
      const classes = await modelClasses(root, model.modelFile);
      const [name = 'Model'] = classes;
      const unclear =
        classes.length === 1 ? [] : [`the class of the model in ${module}.py (${classes.join(', ') || 'none was found'})`];
      const safe = weights.kind === 'safetensors';
      const weightsText = safe
        ? `load_file(${python(file)})`
        : `torch.load(${python(file)}, map_location="cpu", weights_only=True)`;
      const load = [
        ...(safe ? ['from safetensors.torch import load_file'] : []),
        `from ${module} import ${name}`,
        '',
        `model = ${name}()`,
        `model.load_state_dict(${weightsText})`,
        'model.eval()',
      ];
      return script(what, load, example, eagerCall(detector), [...unclear, ...check], safe ? ['safetensors'] : []);
    }
    case 'compiled':
      return {
        kind: 'none',
        what: 'a compiled model',
        why: 'it cannot be turned back; export the model that it was compiled from',
      };
    case 'other':
      return { kind: 'none', what: weights.what, why: 'export it with the tool of its framework (tf2onnx, skl2onnx)' };
  }
}

function script(
  what: string,
  load: readonly string[],
  example: readonly string[],
  call: readonly string[],
  check: readonly string[],
  packages: readonly string[] = [],
): ExportPlan & { kind: 'script' } {
  const lines = [
    'import os',
    'import torch',
    '',
    'os.chdir(os.path.dirname(os.path.abspath(__file__)))',
    ...load,
    '',
    ...(example.length === 0
      ? []
      : [
          ...example,
          'with torch.no_grad():',
          '    print([getattr(it, "shape", it) for it in torch.utils._pytree.tree_leaves(model(example))])',
        ]),
    ...call,
  ];
  return { kind: 'script', what, packages: ['torch', 'onnx', 'onnxscript', ...packages], script: `${lines.join('\n')}\n`, check };
}

function eagerCall(detector: boolean): string[] {
  if (detector) return exportCall('dynamo=False', undefined, true);
  return exportCall('dynamo=True', 'dynamic_shapes=({0: torch.export.Dim("batch")},),', false);
}

function exportCall(how: string, dynamic: string | undefined, detector: boolean): string[] {
  if (detector) {
    return [
      'torch.onnx.export(',
      `    model, (example,), "model.onnx", ${how}, opset_version=17,`,
      '    input_names=["image"], output_names=["boxes", "labels", "scores"],',
      '    dynamic_axes={"image": {1: "height", 2: "width"}, "boxes": {0: "n"}, "labels": {0: "n"}, "scores": {0: "n"}},',
      ')',
    ];
  }
  return [
    'torch.onnx.export(',
    `    model, (example,), "model.onnx", ${how},`,
    '    input_names=["input"], output_names=["output"],',
    ...(dynamic === undefined ? [] : [`    ${dynamic}`]),
    ')',
  ];
}

const tasks: ReadonlyArray<readonly [RegExp, string]> = [
  [/ForSequenceClassification$/, 'text-classification'],
  [/ForTokenClassification$/, 'token-classification'],
  [/ForQuestionAnswering$/, 'question-answering'],
  [/ForMaskedLM$/, 'fill-mask'],
  [/ForCausalLM$/, 'text-generation'],
  [/ForConditionalGeneration$/, 'text2text-generation'],
  [/ForImageClassification$/, 'image-classification'],
  [/Model$/, 'feature-extraction'],
];

/** `config.json` as transformers writes it; undefined when there is none. */
async function huggingFaceConfig(root: string): Promise<{ type: string; task: string | undefined } | undefined> {
  if (!(await readdir(root)).includes('config.json')) return undefined;
  try {
    const json = JSON.parse(await readFile(join(root, 'config.json'), 'utf8')) as {
      model_type?: unknown;
      architectures?: unknown;
    };
    if (typeof json.model_type !== 'string') return undefined;
    const first: unknown = Array.isArray(json.architectures) ? json.architectures[0] : undefined;
    return { type: json.model_type, task: tasks.find(([pattern]) => typeof first === 'string' && pattern.test(first))?.[1] };
  } catch {
    return undefined;
  }
}

function python(text: string): string {
  return JSON.stringify(text);
}
