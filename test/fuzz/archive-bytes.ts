import { gzipSync } from 'node:zlib';
import { type ZipEntry, zipBytes } from '../helpers/zip-bytes.js';
import { words } from './boundaries.js';
import { aliasBomb, manifest, manifestSeed, modelKeys, workflowKeys, workflowManifest, yaml } from './documents.js';
import { mutate } from './mutate.js';
import type { Random } from './random.js';

interface File {
  readonly name: string;
  readonly data: Buffer;
}
/** Far more than its own size when it is unpacked. */
const zeros = zipBytes([{ name: 'zeros', data: Buffer.alloc(3_000_000) }]);
const code = Buffer.from('export default { handle: (batch) => batch.map(() => 1) };');

function name(random: Random): string {
  return random.pick([
    () => random.pick(words).slice(0, 5000),
    () =>
      random.pick([
        '../up',
        '/abs',
        'a/../../b',
        'C:\\x',
        '..\\up',
        'a//b',
        './a',
        'a/',
        'MAR-INF',
        'MAR-INF/MANIFEST.json',
        'h.mjs/x',
        'con',
        '.',
        'a\0b',
        'ä',
        `${'d/'.repeat(300)}x`,
      ]),
  ])();
}

function files(random: Random, onnx: Buffer): File[] {
  const all: File[] = [
    { name: 'MAR-INF/MANIFEST.json', data: Buffer.from(random.chance(0.5) ? manifestSeed : manifest(random)) },
    { name: 'h.mjs', data: code },
    { name: 'm.onnx', data: random.chance(0.5) ? onnx : mutate(onnx, random) },
    {
      name: 'c.yaml',
      data: Buffer.from(random.chance(0.4) ? 'minWorkers: 0\n' : random.chance(0.05) ? aliasBomb : yaml(random, modelKeys)),
    },
    ...random.list(3, () => ({ name: name(random), data: random.bytes(random.int(0, 20)) })),
  ];
  return all.filter(() => random.chance(0.95));
}

function workflowFiles(random: Random): File[] {
  const dag = () =>
    `models:\n  a:\n    url: victim.mar\ndag:\n  pre: [a]\n  a: [${random.pick(['b', 'a', 'pre', 'a, a', ''])}]\n`;
  return [
    {
      name: 'WAR-INF/MANIFEST.json',
      data: random.chance(0.6) ? Buffer.from(workflowManifest) : mutate(Buffer.from(workflowManifest), random),
    },
    { name: 'spec.yaml', data: Buffer.from(random.pick([dag, () => yaml(random, workflowKeys), () => aliasBomb])()) },
    { name: 'h.mjs', data: Buffer.from('export const pre = (data) => data; export const b = pre;') },
  ].filter(() => random.chance(0.95));
}

function zipped(random: Random, all: readonly File[]): Buffer {
  const entries = all.map(({ name: path, data }): ZipEntry => ({
    name: path,
    data,
    deflate: random.chance(0.7),
    ...(random.chance(0.03) ? { mode: random.pick([0o120777, 0o040755, 0o060000, 0]) } : {}),
    ...(random.chance(0.03) ? { descriptor: true } : {}),
    ...(random.chance(0.03) ? { zip64: true } : {}),
    ...(random.chance(0.03) ? { encrypted: true } : {}),
    ...(random.chance(0.03) ? { method: random.pick([0, 8, 9, 12, 99, 65_535]) } : {}),
    ...(random.chance(0.03) ? { claimedSize: random.pick([0, 1, 2 ** 31, 2 ** 32 - 2]) } : {}),
  }));
  return zipBytes(random.chance(0.05) ? [...entries, ...entries] : entries);
}

function tarred(random: Random, all: readonly File[]): Buffer {
  const blocks = all.flatMap(({ name: path, data }) => {
    const head = Buffer.alloc(512);
    head.write(path, 0, 100);
    head.write('0000644\0' + '0000000\0'.repeat(2), 100);
    const size = random.chance(0.05)
      ? random.pick(['77777777777', '-0000000001', '99999999999', '\u0080\0\0\0\0\0\0\0\0\0\0'])
      : data.length.toString(8).padStart(11, '0');
    head.write(`${size}\0`, 124, 'latin1');
    head.write('00000000000\0        ', 136);
    head.write(random.chance(0.93) ? '0' : random.pick(['1', '2', '3', '5', '6', 'x', 'g', 'L', 'S', '\0', 'V']), 156);
    head.write(random.pick(['', '../x', '/etc/passwd', 'h.mjs']), 157);
    head.write('ustar\u000000', 257);
    if (random.chance(0.95))
      head.write(
        `${head
          .reduce((sum, byte) => sum + byte, 0)
          .toString(8)
          .padStart(6, '0')}\0 `,
        148,
      );
    return [head, data, Buffer.alloc((512 - (data.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(random.pick([1024, 1024, 512, 0]))]);
}

function packed(random: Random, all: readonly File[]): Buffer {
  return random.pick([
    () => zipped(random, all),
    () => zipped(random, all),
    () => gzipSync(tarred(random, all)),
    () => gzipSync(gzipSync(tarred(random, all))),
    () => gzipSync(mutate(tarred(random, all), random)),
    () => zeros,
  ])();
}

/** The bytes of a model archive, or what looks like one. */
export const modelArchive = (random: Random, onnx: Buffer): Buffer => packed(random, files(random, onnx));
export const workflowArchive = (random: Random): Buffer => packed(random, workflowFiles(random));
/** A sound archive around a broken model. */
export const brokenModel = (random: Random, onnx: Buffer): Buffer =>
  zipBytes([
    {
      name: 'MAR-INF/MANIFEST.json',
      data: '{"runtime":"node","model":{"modelName":"m","modelVersion":"1.0","serializedFile":"m.onnx"}}',
    },
    { name: 'm.onnx', data: random.chance(0.9) ? mutate(onnx, random) : random.bytes(random.int(0, 300)) },
  ]);
