import { mkdtempSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { words } from '../boundaries.js';
import {
  aliasBomb,
  manifest,
  manifestSeed,
  metricKeys,
  modelKeys,
  properties,
  snapshot,
  workflowKeys,
  yaml,
} from '../documents.js';
import { modelArchive } from '../archive-bytes.js';
import { mutate } from '../mutate.js';
import type { Random } from '../random.js';
import { type Target, Violation, within } from '../target.js';
import { json } from '../values.js';
import { onnx } from './archives.js';

/** Milliseconds that one small input may keep a decoder busy. */
const busyLimit = 2_000;
const packages = new URL('../../packages/', import.meta.url);
/** The decoders are taken from what was built, as the server runs them. */
const room = async (path: string): Promise<Record<string, Decoder>> =>
  (await import(new URL(path, packages).href)) as Record<string, Decoder>;
type Decoder = (...given: readonly unknown[]) => unknown;

/** @param allowed names of the errors, or of the codes of a ServeError, that a broken input may end in */
async function tried(work: () => unknown, allowed: readonly string[]): Promise<string> {
  let outcome = 'taken';
  const began = performance.now();
  try {
    await within(Promise.resolve(work()), 'a decoder');
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string };
    outcome = name === 'ServeError' ? String(code) : String(name);
    if (!allowed.includes(outcome)) throw error;
  }
  const took = performance.now() - began;
  if (took > busyLimit) throw new Violation(`hang: the decoder was busy for ${Math.round(took)} ms`);
  return outcome;
}

function decoder(
  name: string,
  seeds: readonly string[],
  make: (random: Random) => Buffer | string,
  play: (input: Buffer) => Promise<string>,
): Target {
  return {
    name,
    kind: 'decoder',
    seeds: seeds.map((text) => Buffer.from(text)),
    make: (random) => Buffer.from(make(random) as string),
    play,
  };
}

async function inFolder(bytes: Buffer, work: (folder: string, file: string) => Promise<string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'onnxserve-fuzz-'));
  try {
    const file = join(folder, 'input');
    writeFileSync(file, bytes);
    return await work(folder, file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const report = () => undefined;
const limits = { maxArchiveSize: 1_000_000, maxArchiveRatio: 100 };

/** Frames as a worker or the front may get them from a process that has gone mad. */
const frames = decoder(
  'frames',
  [],
  (random) => {
    const piece = () => {
      const meta = Buffer.from(random.chance(0.8) ? json(random, 2) : random.bytes(9));
      const blob = random.bytes(random.int(0, 30));
      const head = Buffer.alloc(8);
      const lie = () => random.pick([0, 1, 3, 2 ** 31, 2 ** 32 - 1]);
      head.writeUInt32LE(random.chance(0.9) ? 4 + meta.length + blob.length : lie(), 0);
      head.writeUInt32LE(random.chance(0.9) ? meta.length : lie(), 4);
      return Buffer.concat([head, meta, blob]);
    };
    return Buffer.concat(random.list(5, piece));
  },
  async (input) => {
    const { FrameReader } = (await room('runtime/dist/ipc/frames.js')) as unknown as {
      FrameReader: new (onFrame: (frame: { meta: unknown; blob: Buffer }) => void) => { push(chunk: Buffer): void };
    };
    const read = (size: number) => {
      const found: string[] = [];
      let broken = false;
      const reader = new FrameReader(({ meta, blob }) => found.push(`${JSON.stringify(meta)} ${blob.toString('hex')}`));
      try {
        for (let at = 0; at < input.length; at += size) reader.push(input.subarray(at, at + size));
      } catch (error) {
        if ((error as Error).name !== 'BrokenFrameError') throw error;
        broken = true;
      }
      return `${found.join('\n')}\n${broken}`;
    };
    const whole = read(Math.max(1, input.length));
    for (const size of [1, 3, 7])
      if (read(size) !== whole) throw new Violation(`frames depend on where the stream is cut (${size})`);
    return whole.endsWith('true') ? 'broken' : 'taken';
  },
);

export const decoderTargets: readonly Target[] = [
  frames,
  decoder(
    'properties',
    ['inference_address=http://127.0.0.1:8080\nmodels={"a":{"1.0":{"marName":"a.mar","minWorkers":1}}}\n'],
    properties,
    (input) =>
      inFolder(input, async (folder, file) => {
        const { loadConfig } = await room('runtime/dist/config/load-config.js');
        return await tried(() => loadConfig?.({ argv: { tsConfig: file, ncs: true }, env: {}, cwd: folder }), []);
      }),
  ),
  decoder(
    'model-config',
    ['minWorkers: 1\nonnx:\n  intraOpNumThreads: 2\n', aliasBomb],
    (random) => yaml(random, modelKeys),
    async (input) => {
      const { parseModelConfig } = await room('runtime/dist/config/model-config-parser.js');
      return await tried(() => parseModelConfig?.(input.toString('utf8'), 'model-config.yaml', 'm'), []);
    },
  ),
  decoder(
    'workflow-spec',
    ['models:\n  a:\n    url: a.mar\ndag:\n  pre: [a]\n  a: [post]\n', aliasBomb],
    (random) => yaml(random, workflowKeys),
    async (input) => {
      const { parseWorkflowSpec } = await room('archiver/dist/workflow/spec.js');
      return await tried(() => parseWorkflowSpec?.(input.toString('utf8'), 'spec.yaml'), ['WorkflowSpecError']);
    },
  ),
  decoder(
    'metrics-config',
    ['ts_metrics:\n  counter:\n    - name: A\n      unit: ms\n      dimensions: [Hostname]\n', aliasBomb],
    (random) => yaml(random, metricKeys),
    async (input) => {
      const { parseMetricsConfig } = await room('runtime/dist/metrics/metrics-config.js');
      // A mistake in the file is an Error that names it; whatever else is thrown has another name.
      return await tried(() => parseMetricsConfig?.(input.toString('utf8'), 'metrics.yaml'), ['Error']);
    },
  ),
  decoder('manifest', [manifestSeed], manifest, async (input) => {
    const { parseManifest } = await room('archiver/dist/manifest.js');
    return await tried(() => parseManifest?.(input.toString('utf8')), ['ManifestError']);
  }),
  decoder(
    'snapshot',
    ['{"models":{"a":{"1.0":{"marName":"a.mar","minWorkers":1,"defaultVersion":true}}}}'],
    snapshot,
    async (input) => {
      const { readSnapshot, readStartupModels } = await room('runtime/dist/config/startup-models.js');
      const text = input.toString('utf8');
      await tried(() => readSnapshot?.(text, 8, report), []);
      return await tried(() => readStartupModels?.('models', text, { leastWorkers: 1, maxWorkersLimit: 8 }, report), []);
    },
  ),
  decoder(
    'key-file',
    ['a-token\n'],
    (random) => random.pick(words),
    (input) =>
      inFolder(input, async (_folder, file) => {
        const { readSecret } = await room('runtime/dist/admission/key-file.js');
        return await tried(() => readSecret?.(file), ['Error']);
      }),
  ),
  decoder(
    'unpack',
    [],
    (random) => modelArchive(random, onnx),
    (input) =>
      inFolder(input, async (folder, file) => {
        const { unpack } = await room('runtime/dist/registry/unpack.js');
        mkdirSync(join(folder, 'into'));
        const outcome = await tried(() => unpack?.(file, 'input.mar', join(folder, 'into'), limits), ['INVALID_MODEL']);
        const left = readdirSync(folder).sort().join();
        if (left !== 'input,into') throw new Violation(`unpacked outside its folder: ${left}`);
        return outcome;
      }),
  ),
  decoder(
    'external-data',
    [],
    (random) => (random.chance(0.8) ? mutate(onnx, random) : random.bytes(random.int(0, 200))),
    (input) =>
      inFolder(input, async (_folder, file) => {
        const { readExternalData } = await room('archiver/dist/external-data.js');
        return await tried(() => readExternalData?.(file), []);
      }),
  ),
];
