import type { PythonHandler } from './python-handler.js';
import { counterpartOf } from './python-packages.js';
import { bundledSkeletons } from './torchserve-handlers.js';

/** `handler.ts` to begin with. It compiles, and says in each answer which stage is to be written. */
export function handlerSkeleton(handler: PythonHandler, jsonFiles: readonly string[]): string {
  const stages = new Set(handler.stages);
  const head = [
    `// From ${handler.file}, ${handler.entry}${handler.stages.length > 0 ? `: ${handler.stages.join(', ')}` : ''}.`,
    ...handler.packages
      .map((name) => `// ${name}: ${counterpartOf(name) ?? 'look for a package of npm, or write it'}`)
      .filter((line) => !line.startsWith('// ts:')),
    ...handler.idioms.map(({ python, typescript }) => `// ${python}: ${typescript}`),
    ...handler.fields.map((field) => `// row.get(${JSON.stringify(field)}): request.part(${JSON.stringify(field)})?.data`),
  ];
  const whole = stages.has('handle') && !['preprocess', 'inference', 'postprocess'].some((stage) => stages.has(stage as never));
  const body = whole ? wholeBatch(jsonFiles) : staged(handler, jsonFiles);
  return [...head, ...body].map((line) => line.trimEnd()).join('\n') + '\n';
}

/** `handler.ts` that does what a handler of TorchServe's own does; undefined: there is none. */
export function bundledSkeleton(name: string): string | undefined {
  return Object.hasOwn(bundledSkeletons, name) ? bundledSkeletons[name] : undefined;
}

function load(jsonFiles: readonly string[]): string[] {
  const files = jsonFiles.map((file) => `      ${property(file)}: await ctx.model.json(${quote(file)}),`);
  return [
    '  /** initialize: once per worker; what it returns is ctx.state. */',
    '  async load(ctx) {',
    ...(files.length > 0 ? ['    return {', ...files, '    };'] : ['    return { config: ctx.model.config };']),
    '  },',
    '',
  ];
}

function staged({ file, stages }: PythonHandler, jsonFiles: readonly string[]): string[] {
  const has = (stage: string) => (stages as readonly string[]).includes(stage);
  const ownRun = has('inference') || has('handle');
  const toWrite = ownRun || has('preprocess');
  return [
    `import { defineHandler, type NamedTensors${toWrite ? '' : ', tensor'} } from '@onnxserve/handler-kit';`,
    '',
    'export default defineHandler({',
    ...load(jsonFiles),
    `  /** preprocess of ${file}, for one request: its body to the inputs of the model, first dimension 1. */`,
    '  preprocess(request): NamedTensors {',
    ...(toWrite
      ? [
          `    throw new Error(\`preprocess of ${escape(file)} is not written yet; the request has \${request.body().length} bytes\`);`,
        ]
      : ['    const rows = request.json() as number[];', "    return { input: tensor('FP32', [1, rows.length], rows) };"]),
    '  },',
    '',
    ...(ownRun
      ? [
          '  /** inference: the requests of a batch. Leave it out when it only ran the model: the server joins, runs and splits. */',
          '  async inference(batch, ctx) {',
          "    if (!ctx.session) throw new Error('the archive has no ONNX model');",
          '    const outputs: NamedTensors[] = [];',
          '    for (const features of batch) outputs.push(await ctx.session.run(features));',
          '    return outputs;',
          '  },',
          '',
        ]
      : []),
    ...(has('postprocess') || has('handle')
      ? [
          '  /** postprocess, for one request: its rows of the outputs to its answer. */',
          '  postprocess(outputs) {',
          `    throw new Error(\`postprocess of ${escape(file)} is not written yet; the model returned \${Object.keys(outputs).join(', ')}\`);`,
          '  },',
        ]
      : []),
    ...(has('explain_handle')
      ? [
          '',
          '  explain(outputs) {',
          "    throw new Error(`explain_handle is not written yet; the model returned ${Object.keys(outputs).join(', ')}`);",
          '  },',
        ]
      : []),
    ...(has('describe_handle') ? ['', '  describe(ctx) {', '    return { model: ctx.model.name };', '  },'] : []),
    '});',
  ];
}

function wholeBatch(jsonFiles: readonly string[]): string[] {
  return [
    "import { defineHandler } from '@onnxserve/handler-kit';",
    '',
    'export default defineHandler({',
    ...load(jsonFiles),
    '  /** handle: a list of requests in, a list of as many results out. An Error in the place of a result fails that request alone. */',
    '  handle(batch) {',
    '    return batch.map(({ request }) => new Error(`handle is not written yet; the request has ${request.body().length} bytes`));',
    '  },',
    '});',
  ];
}

function property(file: string): string {
  const words = file
    .replace(/\.json$/i, '')
    .split(/[^A-Za-z0-9]+/)
    .filter(Boolean);
  const name = words
    .map((word, at) => (at === 0 ? word.toLowerCase() : word[0]!.toUpperCase() + word.slice(1).toLowerCase()))
    .join('');
  return /^[A-Za-z]/.test(name) ? name : `file${name}`;
}

function quote(text: string): string {
  return `'${escape(text).replaceAll("'", "\\'")}'`;
}

function escape(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replaceAll('`', '\\`')
    .replaceAll('$', '\\$')
    .replaceAll(/\p{Cc}/gu, ' ');
}
