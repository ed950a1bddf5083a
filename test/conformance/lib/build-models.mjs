// Builds the model store that the recordings were made with: every archive of the table in README.md, broken ones included.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { manifest, writeClimbingZip, writeFolder, writeTgz, writeZip } from './archives.mjs';

const models = fileURLToPath(new URL('../models/', import.meta.url));

/** @param {string} name of a handler in models/ @returns {Promise<string>} one self-contained module */
async function bundle(name) {
  const result = await build({
    entryPoints: [join(models, `${name}.ts`)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'silent',
  });
  return result.outputFiles[0]?.text ?? '';
}

/** @param {unknown} value flow style, which JSON is */
const yaml = (value) => `${JSON.stringify(value, null, 2)}\n`;

const one = { minWorkers: 1, maxWorkers: 1 };
/** Archives with a model-config file: `[archive, config, manifest fields]`. @type {Array<[string, object, object?]>} */
const configured = [
  ['kit', { ...one, kit: {} }],
  ['kitmet', { ...one, kit: {} }],
  ['inspect', { ...one, kit: { mode: 'inspect' } }],
  ['echo', { kit: { mode: 'echo' } }],
  ['echo_v2.0', { kit: { mode: 'noop' } }, { modelName: 'echo', modelVersion: '2.0' }],
  ['echo_v3.0', { kit: { mode: 'noop' } }, { modelName: 'echo', modelVersion: '3.0' }],
  ['noop', { kit: { mode: 'noop' } }],
  ['zero', { kit: { mode: 'noop' } }],
  ['batch4', { ...one, batchSize: 4, maxBatchDelay: 400, kit: { mode: 'batch' } }],
  ['failing', { kit: { mode: 'raise' } }],
  ['crash', { kit: { mode: 'crash' } }],
  ['slow', { ...one, responseTimeout: 2, jobQueueSize: 2, kit: { mode: 'sleep' } }],
  ['clientto', { ...one, clientTimeoutInMills: 500, kit: { mode: 'sleep' } }],
  ['ticket', { ...one, useJobTicket: true, kit: {} }],
  [
    'seq',
    {
      ...one,
      batchSize: 2,
      maxBatchDelay: 100,
      sequenceBatching: true,
      sequenceMaxIdleMSec: 2000,
      sequenceTimeoutMSec: 5000,
      maxNumSequence: 2,
      maxSequenceJobQueueSize: 2,
      kit: {},
    },
  ],
  ['retry', { ...one, maxRetryTimeoutInSec: 3, kit: {} }],
  ['cont', { ...one, batchSize: 2, maxBatchDelay: 100, continuousBatching: true, kit: {} }],
  ['loadfail', { kit: { load: 'runtime-error' } }],
  ['loadvalueerror', { kit: { load: 'value-error' } }],
  ['loadoom', { kit: { load: 'out-of-memory' } }],
  ['loadexit', { kit: { load: 'exit' } }],
  ['slowload', { startupTimeout: 2, kit: { load: 'sleep' } }],
];

/**
 * @param {string} store model store to fill; the workflow archives go to `workflows` beside it
 * @param {string} www folder of the file server, gets `httpmodel.mar`
 */
export async function buildModels(store, www) {
  await mkdir(store, { recursive: true });
  await mkdir(www, { recursive: true });
  const code = await bundle('kit');
  const path = (/** @type {string} */ file) => join(store, file);
  const fields = (/** @type {string} */ name, more = {}) => ({
    modelName: name,
    modelVersion: '1.0',
    handler: 'kit.js',
    ...more,
  });
  const withManifest = (/** @type {string} */ text, more = {}) => ({ 'kit.js': code, ...more, 'MAR-INF/MANIFEST.json': text });

  for (const [name, config, more] of configured) {
    const text = manifest(fields(name, { configFile: `${name}.yaml`, ...more }));
    await writeZip(path(`${name}.mar`), withManifest(text, { [`${name}.yaml`]: yaml(config) }));
  }
  const workflowNode = await bundle('workflow-node');
  for (const tag of ['m1', 'm2']) {
    const files = {
      'node.js': workflowNode,
      'node.yaml': yaml({ tag }),
      'MAR-INF/MANIFEST.json': manifest(fields(`wf${tag}`, { handler: 'node.js', configFile: 'node.yaml' })),
    };
    await writeZip(path(`wf${tag}.mar`), files);
  }
  const workflows = join(store, '..', 'workflows');
  await mkdir(workflows, { recursive: true });
  await writeWorkflows((file) => join(workflows, file));
  await writeBroken(path, fields, withManifest);
  const http = manifest(fields('httpmodel', { configFile: 'httpmodel.yaml' }));
  await writeZip(join(www, 'httpmodel.mar'), withManifest(http, { 'httpmodel.yaml': yaml({ kit: { mode: 'noop' } }) }));
}

/** @param {(file: string) => string} path */
async function writeWorkflows(path) {
  const functions = await bundle('workflow-functions');
  const settings = { 'min-workers': 1, 'max-workers': 1, 'retry-attempts': 1, 'timeout-ms': 3000 };
  const m1 = { url: 'wfm1.mar' };
  const m2 = { url: 'wfm2.mar' };
  /** @type {Record<string, { models: object, dag: object }>} */
  const specs = {
    seq: {
      models: { ...settings, 'max-batch-delay': 100, m1, m2: { ...m2, 'batch-size': 2 } },
      dag: { pre: ['m1'], m1: ['m2'], m2: ['post'] },
    },
    par: { models: { ...settings, m1, m2 }, dag: { split: ['m1', 'm2'], m1: ['aggregate'], m2: ['aggregate'] } },
    multi: { models: { ...settings, m1 }, dag: { split: ['m1', 'post'] } },
    cyc: { models: { ...settings, m1, m2 }, dag: { m1: ['m2'], m2: ['m1'] } },
    miss: {
      models: { ...settings, m1, m2: { url: 'absent.mar' } },
      dag: { split: ['m1', 'm2'], m1: ['aggregate'], m2: ['aggregate'] },
    },
  };
  for (const [name, spec] of Object.entries(specs)) {
    const workflow = { workflowName: name, specFile: 'spec.yaml', handler: 'functions.js' };
    await writeZip(path(`${name}.war`), {
      'spec.yaml': yaml(spec),
      'functions.js': functions,
      'WAR-INF/MANIFEST.json': JSON.stringify({ createdOn: '01/12/2026 00:00:00', workflow, archiverVersion: '0.2.15' }),
    });
  }
}

/**
 * Broken and odd archives, without a model-config file where it is not the point.
 * @param {(file: string) => string} path
 * @param {(name: string, more?: object) => Record<string, unknown>} fields
 * @param {(text: string, more?: object) => Record<string, string>} withManifest
 */
async function writeBroken(path, fields, withManifest) {
  await writeFile(path('notzip.mar'), 'this is a text file\n');
  await writeFile(path('empty.mar'), '');
  await writeFile(path('bad_trunc.mar'), (await readFile(path('kit.mar'))).subarray(0, 500));
  const { 'MAR-INF/MANIFEST.json': _, ...noManifest } = withManifest('');
  await writeZip(path('nomanifest.mar'), noManifest);
  await writeZip(path('badmanifest.mar'), withManifest('{ "model": '));
  await writeZip(path('nomodel.mar'), withManifest(manifest(undefined)));

  /** @type {Record<string, [Record<string, unknown>, Record<string, unknown>?]>} model fields and top-level fields by archive */
  const odd = {
    noname: [fields('', { modelName: undefined })],
    nover: [fields('nover', { modelVersion: undefined })],
    nohandler: [fields('nohandler', { handler: undefined })],
    noruntime: [fields('noruntime'), { runtime: undefined }],
    badruntime: [fields('badruntime'), { runtime: 'cobol' }],
    missinghandler: [fields('missinghandler', { handler: 'nofile.js' })],
    intver: [fields('intver', { modelVersion: 7 })],
    'weird name': [fields('weird name')],
  };
  for (const [name, [model, more]] of Object.entries(odd))
    await writeZip(path(`${name}.mar`), withManifest(manifest(model, more)));

  const configs = {
    badyaml: 'minWorkers: [1\n  : }\n',
    wrongtypes: 'minWorkers: lots\nmaxWorkers: [2]\nbatchSize: big\nmaxBatchDelay: {}\nresponseTimeout: soon\n',
  };
  for (const [name, text] of Object.entries(configs)) {
    const description = manifest(fields(name, { configFile: `${name}.yaml` }));
    await writeZip(path(`${name}.mar`), withManifest(description, { [`${name}.yaml`]: text }));
  }
  await writeZip(path('missingyaml.mar'), withManifest(manifest(fields('missingyaml', { configFile: 'absent.yaml' }))));
  await writeClimbingZip(path('slip.mar'), withManifest(manifest(fields('slip'))), '../../slipped.txt');
  await writeFolder(path('dirmodel'), withManifest(manifest(fields('dirmodel'))));
  await writeTgz(path('tgzmodel.tar.gz'), withManifest(manifest(fields('tgzmodel'))));
}
