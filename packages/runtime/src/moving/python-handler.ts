import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { outlinePython, type PythonClass, type PythonOutline } from './python-outline.js';
import { isStandardModule } from './python-packages.js';

/** The methods of a handler that TorchServe calls. */
export const stageNames = [
  'initialize',
  'preprocess',
  'inference',
  'postprocess',
  'handle',
  'explain_handle',
  'describe_handle',
] as const;
export type StageName = (typeof stageNames)[number];

/** A Python handler as far as its source shows it. */
export interface PythonHandler {
  /** The file's name in the archive. */
  readonly file: string;
  /** `class Digits(BaseHandler)`, `function handle`. */
  readonly entry: string;
  /** Stages that the archive's own code defines; what is not here is the base class's. */
  readonly stages: readonly StageName[];
  /** Packages that are neither Python's own nor files of the archive. */
  readonly packages: readonly string[];
  /** Python files of the archive that it imports. */
  readonly ownFiles: readonly string[];
  /** What it takes from requests and gives back in ways that have another name here. */
  readonly idioms: readonly Idiom[];
  /** Fields of a request that it reads, beside `data` and `body`. */
  readonly fields: readonly string[];
  /** Base classes that are neither of the archive nor TorchServe's. */
  readonly foreignBases: readonly string[];
}

export interface Idiom {
  readonly python: string;
  readonly typescript: string;
}

const idioms: ReadonlyArray<readonly [pattern: RegExp, python: string, typescript: string]> = [
  [
    /\bsend_intermediate_predict_response\b/,
    'send_intermediate_predict_response',
    'return an async iterable and `yield` the parts',
  ],
  [/\bPredictionException\b/, 'PredictionException', '`throw new PredictionError(message, status)`'],
  [/\bset_response_status\b/, 'context.set_response_status', '`ctx.response.status(code)`'],
  [/\bset_response_header\b/, 'context.set_response_header', '`ctx.response.header(name, value)`'],
  [/\bset_response_content_type\b/, 'context.set_response_content_type', '`ctx.response.contentType(type)`'],
  [/\bget_request_header\b|\bget_all_request_header\b/, 'context.get_request_header', "`request.headers['name']`"],
  [/\bget_request_id\b|\brequest_ids\b/, 'context.get_request_id', '`ctx.request.id`'],
  [/\bget_sequence_id\b/, 'context.get_sequence_id', '`request.sequence?.id`, see docs/sequences.md'],
  [
    /\.add_(?:counter|metric|time|size|percent|error)\s*\(/,
    'context.metrics.add_…',
    '`ctx.metrics.counter`, `.time`, `.size`, `.percent`, `.gauge`',
  ],
  [/\bmodel_yaml_config\b/, 'context.model_yaml_config', '`ctx.model.config`'],
  [
    /"(?:model_dir)"|\bmodel_dir\b/,
    'system_properties["model_dir"]',
    '`ctx.model.path(file)`, `.json(file)`, `.text(file)`, `.bytes(file)`',
  ],
  [/\bgpu_id\b/, 'system_properties["gpu_id"]', '`ctx.device`; the server places the model'],
  [
    /\bcache\b.*\bcontext\b|\bcontext\.cache\b/,
    'context.cache',
    '`ctx.state`, what `load` returned; of a sequence `ctx.sequence.state`, see docs/sequences.md',
  ],
  [/\btorch\.compile\b/, 'torch.compile', 'nothing; onnxruntime optimises the graph when it loads it'],
];

const largestSource = 1 << 20;
const mostSources = 500;

/**
 * Reads a Python handler of an unpacked archive. Nothing is run.
 * @param text the manifest's handler: `file.py`, `file.py:function`, `file`
 * @returns undefined when the archive has no such file
 */
export async function readPythonHandler(root: string, text: string): Promise<PythonHandler | undefined> {
  const [name = '', wanted = ''] = text.split(':').map((part) => part.trim());
  const file = `${(name.split(/[/\\]/).at(-1) ?? '').replace(/\.py$/, '')}.py`;
  const sources = await readSources(root);
  const outline = sources.get(file);
  if (outline === undefined) return undefined;
  const entry = entryOf(outline, wanted);
  const chain = entry.kind === 'class' ? classChain(entry.found, outline, sources) : { methods: new Set<string>(), foreign: [] };
  const stages =
    entry.kind === 'function'
      ? (['handle'] as const)
      : stageNames.filter((stage) => chain.methods.has(stage) || aliasOf(stage, chain.methods));
  const mine = reached(file, sources);
  const codes = mine.map((it) => sources.get(it)!);
  const modules = new Set(codes.flatMap(({ imports }) => imports.map(({ module }) => module.split('.')[0]!)).filter(Boolean));
  return {
    file,
    entry: entry.kind === 'none' ? file : entry.kind === 'function' ? `function ${entry.name}` : classText(entry.found),
    stages: [...stages],
    packages: [...modules].filter((it) => !isStandardModule(it) && !sources.has(`${it}.py`)).sort(),
    ownFiles: mine.filter((it) => it !== file),
    idioms: idioms
      .filter(([pattern]) => codes.some((it) => uses(it, pattern)))
      .map(([, python, typescript]) => ({ python, typescript })),
    fields: [...new Set(codes.flatMap(fieldsOf))].sort(),
    foreignBases: chain.foreign,
  };
}

/** Classes of a file of the archive that may be the model: what TorchServe instantiates for `modelFile`. */
export async function modelClasses(root: string, file: string): Promise<string[]> {
  const outline = (await readSources(root)).get(file.split(/[/\\]/).at(-1) ?? '');
  if (outline === undefined) return [];
  const modules = outline.classes.filter(
    ({ methods, bases }) => bases.length > 0 || methods.some(({ name }) => name === 'forward'),
  );
  const bases = new Set(modules.flatMap((it) => it.bases));
  // The class at the end of a chain of its own file is the one that is meant.
  const last = modules.filter(({ name }) => !bases.has(name));
  return last.map(({ name }) => name);
}

async function readSources(root: string): Promise<Map<string, PythonOutline>> {
  const names = (await readdir(root)).filter((name) => name.endsWith('.py')).slice(0, mostSources);
  const sources = new Map<string, PythonOutline>();
  for (const name of names) {
    const info = await stat(join(root, name));
    if (info.isFile() && info.size <= largestSource) sources.set(name, outlinePython(await readFile(join(root, name), 'utf8')));
  }
  return sources;
}

type EntryPoint =
  | { readonly kind: 'function'; readonly name: string }
  | { readonly kind: 'class'; readonly found: PythonClass }
  | { readonly kind: 'none' };

/** TorchServe takes the named function, or `handle`, or else the class with the methods of a handler. */
function entryOf({ classes, functions }: PythonOutline, wanted: string): EntryPoint {
  const named = functions.find(({ name }) => name === (wanted === '' ? 'handle' : wanted));
  if (named) return { kind: 'function', name: named.name };
  const asked = classes.find(({ name }) => name === wanted);
  const stages = new Set<string>(stageNames);
  const found =
    asked ??
    classes.find(
      ({ bases, methods }) => bases.some((base) => base.endsWith('Handler')) || methods.some(({ name }) => stages.has(name)),
    );
  if (found) return { kind: 'class', found };
  const only = classes.length === 1 ? classes[0] : undefined;
  return only ? { kind: 'class', found: only } : { kind: 'none' };
}

/** The methods of a class and of those of the archive that it inherits from. */
function classChain(
  first: PythonClass,
  home: PythonOutline,
  sources: ReadonlyMap<string, PythonOutline>,
): { methods: Set<string>; foreign: string[] } {
  const methods = new Set<string>();
  const foreign: string[] = [];
  const seen = new Set<PythonClass>();
  const walk = (found: PythonClass, outline: PythonOutline): void => {
    if (seen.has(found)) return;
    seen.add(found);
    for (const { name } of found.methods) methods.add(name);
    for (const base of found.bases) {
      const name = base.split('.').at(-1)!;
      const here = outline.classes.find((it) => it.name === name);
      if (here) {
        walk(here, outline);
        continue;
      }
      const from = outline.imports.find(
        ({ names, module }) => names.includes(name) || module.split('.').at(-1) === base.split('.')[0],
      );
      const other = sources.get(`${from?.module.replace(/^\.+/, '').split('.').at(-1) ?? ''}.py`);
      const there = other?.classes.find((it) => it.name === name);
      if (other && there) walk(there, other);
      else if (!/^(object|ABC|BaseHandler|VisionHandler|TextHandler|Image\w+|ObjectDetector|TextClassifier|Protocol)$/.test(name))
        foreign.push(base);
    }
  };
  walk(first, home);
  return { methods, foreign };
}

/** The file and those of the archive that it imports, directly or not. */
function reached(file: string, sources: ReadonlyMap<string, PythonOutline>): string[] {
  const found = [file];
  for (const name of found) {
    for (const { module, names } of sources.get(name)?.imports ?? []) {
      const bare = module.replace(/^\.+/, '');
      const candidates = bare === '' ? names : [bare.split('.')[0]!, bare.split('.').at(-1)!];
      for (const candidate of candidates.map((it) => `${it}.py`))
        if (sources.has(candidate) && !found.includes(candidate)) found.push(candidate);
    }
  }
  return found;
}

function aliasOf(stage: StageName, methods: ReadonlySet<string>): boolean {
  return stage === 'initialize' && methods.has('__init__') && methods.has('handle') && !methods.has('initialize');
}

function uses({ code, strings }: PythonOutline, pattern: RegExp): boolean {
  // Keys such as "model_dir" stand in strings.
  return pattern.test(code) || strings.some((text) => /^\w{3,40}$/.test(text) && pattern.test(text));
}

function fieldsOf({ code, strings }: PythonOutline): string[] {
  return [...code.matchAll(/\b(?:row|data|item|req|request|body|d|x|r|inp|input)(?:\[\w+\])?\.get\(\s*"(\d+)"/g)]
    .map(([, at]) => strings[Number(at)] ?? '')
    .filter((text) => /^[\w.-]{1,60}$/.test(text) && text !== 'data' && text !== 'body');
}

function classText({ name, bases }: PythonClass): string {
  return `class ${name}${bases.length === 0 ? '' : `(${bases.join(', ')})`}`;
}
