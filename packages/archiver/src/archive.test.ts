import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ArchiveError } from './archive-error.js';
import { archive, type ArchiveOptions } from './archive.js';

const models = fileURLToPath(new URL('../../../test/fixtures/models/', import.meta.url));
const identity = join(models, 'identity-fp32.onnx');
let work: string;
let out: string;

beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'archive-'));
  out = join(work, 'out');
  await mkdir(out);
});
afterEach(() => rm(work, { recursive: true, force: true }));

async function write(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(work, path)), { recursive: true });
    await writeFile(join(work, path), content);
  }
}

/** Archives as a folder. @returns its files */
async function pack(options: Partial<ArchiveOptions>): Promise<string[]> {
  const fixed = { modelName: 'm', version: '1.0', exportPath: out, archiveFormat: 'no-archive', force: true } as const;
  const { path } = await archive({ ...fixed, ...options });
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort();
}

const packed = (file: string) => readFile(join(out, 'm', file), 'utf8');

async function refused(options: Partial<ArchiveOptions>): Promise<string> {
  const error: unknown = await pack(options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ArchiveError);
  expect(await readdir(out)).toEqual([]);
  return (error as ArchiveError).message;
}

describe('handlers', () => {
  it('TypeScript and what it imports become one module', async () => {
    await write({
      'handler.ts': `import { label } from './lib/label.js';\nimport words from './words.json' with { type: 'json' };
        interface Out { n: number }\nexport default { postprocess: (out: Out): string => label(words[out.n]!) };`,
      'lib/label.ts': `export const label = (text: string): string => 'label ' + text;`,
      'words.json': '["zero", "one"]',
    });
    expect(await pack({ handler: join(work, 'handler.ts'), serializedFile: identity })).toEqual([
      'MAR-INF/MANIFEST.json',
      'MAR-INF/onnxserve.json',
      'handler.js',
      'identity-fp32.onnx',
    ]);
    const copy = join(work, 'copy.mjs');
    await writeFile(copy, await packed('handler.js'));
    const { default: handler } = (await import(pathToFileURL(copy).href)) as { default: { postprocess(out: object): string } };
    expect(handler.postprocess({ n: 1 })).toBe('label one');
    expect(JSON.parse(await packed('MAR-INF/MANIFEST.json'))).toMatchObject({
      runtime: 'node',
      createdOn: expect.stringMatching(/^\d\d\/\d\d\/\d{4} \d\d:\d\d:\d\d$/),
      archiverVersion: expect.stringMatching(/^\d+\.\d+\.\d+/),
      model: { modelName: 'm', modelVersion: '1.0', handler: 'handler.js', serializedFile: 'identity-fp32.onnx' },
    });
  });

  it('CommonJS dependencies may require what Node brings', async () => {
    await write({
      'handler.ts': `import { createRequire } from 'node:module';\nimport { base } from './old.cjs';
        const require = createRequire(import.meta.url);\nexport default { name: base('/a/b') + typeof require };`,
      'old.cjs': `const path = require('path'); exports.base = (p) => path.basename(p);`,
    });
    await pack({ handler: join(work, 'handler.ts') });
    const copy = join(work, 'copy.mjs');
    await writeFile(copy, await packed('handler.js'));
    expect(await import(pathToFileURL(copy).href)).toMatchObject({ default: { name: 'bfunction' } });
  });

  it('what the server brings stays outside, with the versions used', async () => {
    await write({
      'handler.ts': `import sharp from 'sharp';\nimport { softmax } from '@onnxserve/handler-kit/postprocess';\nexport default { sharp, softmax };`,
    });
    await pack({ handler: join(work, 'handler.ts') });
    const code = await packed('handler.js');
    expect(code).toMatch(/from "sharp"/);
    expect(code).toMatch(/from "@onnxserve\/handler-kit\/postprocess"/);
    expect(JSON.parse(await packed('MAR-INF/onnxserve.json'))).toEqual({
      runtimeProvides: { sharp: expect.stringMatching(/^\^\d+\.\d+\.\d+/) },
      handlerKit: expect.stringMatching(/^\^\d+\.\d+\.\d+/),
    });
  });

  it('a missing import fails with file, line and import', async () => {
    await write({
      'handler.ts': `import { x } from './lib.js';\nexport default x;`,
      'lib.ts': `\nimport y from 'no-such-package';\nexport const x = y;`,
    });
    const message = await refused({ handler: join(work, 'handler.ts') });
    expect(message).toMatch(/lib\.ts:2:\d+: .*no-such-package/);
    expect(message).toContain('handler.ts cannot be bundled');
  });

  it('a syntax error, a native module, a handler without the export', async () => {
    await write({
      'bad.ts': 'export default {',
      'native.ts': `import './x.node';\nexport default {};`,
      'x.node': '',
      'named.ts': 'export const a = 1;',
    });
    expect(await refused({ handler: join(work, 'bad.ts') })).toMatch(/bad\.ts:1:\d+/);
    expect(await refused({ handler: join(work, 'native.ts') })).toMatch(/x\.node is a native module/);
    expect(await refused({ handler: join(work, 'named.ts') })).toMatch(/exports no default.*it exports a/);
    expect(await refused({ handler: join(work, 'named.ts:b') })).toContain('no "b"');
    expect(await refused({ handler: join(work, 'gone.ts') })).toContain('gone.ts');
  });

  it('a named export', async () => {
    await write({ 'named.ts': 'export const run = {};' });
    await pack({ handler: join(work, 'named.ts:run') });
    expect(JSON.parse(await packed('MAR-INF/MANIFEST.json'))).toMatchObject({ model: { handler: 'named.js:run' } });
  });

  it('bundled names are checked, Python is told where to go', async () => {
    await pack({ handler: 'tensor', serializedFile: identity });
    expect(JSON.parse(await packed('MAR-INF/MANIFEST.json'))).toMatchObject({ model: { handler: 'tensor' } });
    await rm(join(out, 'm'), { recursive: true });
    expect(await refused({ handler: 'no_such_handler', serializedFile: identity })).toContain('no_such_handler');
    expect(await refused({ handler: 'kit.py', serializedFile: identity })).toContain('docs/migration.md');
  });
});

describe('models', () => {
  it('a broken model fails with its name', async () => {
    await write({ 'broken.onnx': 'this is no model', 'empty.onnx': '' });
    expect(await refused({ serializedFile: join(work, 'broken.onnx') })).toMatch(/broken\.onnx cannot be loaded: .+/);
    expect(await refused({ serializedFile: join(work, 'empty.onnx') })).toMatch(/empty\.onnx cannot be loaded/);
    expect(await refused({ serializedFile: identity, extraFiles: join(work, 'broken.onnx') })).toContain('broken.onnx');
    expect(await refused({ serializedFile: join(models, 'identity-bf16.onnx') })).toContain('identity-bf16.onnx');
  });

  it('may be left unchecked', async () => {
    await write({ 'broken.onnx': 'this is no model' });
    expect(await pack({ serializedFile: join(work, 'broken.onnx'), checkModel: false })).toContain('broken.onnx');
  });

  it('weights in files of their own come along, in their place', async () => {
    expect(await pack({ serializedFile: join(models, 'external-subfolder/model.onnx') })).toEqual([
      'MAR-INF/MANIFEST.json',
      'data/weights.bin',
      'model.onnx',
    ]);
    await rm(join(out, 'm'), { recursive: true });
    await write({ 'model.onnx': await readFile(join(models, 'external/model.onnx')) });
    expect(await refused({ serializedFile: join(work, 'model.onnx') })).toContain('weights.bin');
  });
});

describe('further files', () => {
  it("a folder's contents keep their tree", async () => {
    await write({ 'extra/config.json': '1', 'extra/1_Pooling/config.json': '2', 'labels.txt': 'a' });
    const files = await pack({ serializedFile: identity, extraFiles: `${join(work, 'extra')},${join(work, 'labels.txt')}` });
    expect(files).toEqual(['1_Pooling/config.json', 'MAR-INF/MANIFEST.json', 'config.json', 'identity-fp32.onnx', 'labels.txt']);
    expect(await packed('1_Pooling/config.json')).toBe('2');
  });

  it('two files of one name are an error that names both, and a target helps', async () => {
    await write({ 'a/config.json': '1', 'b/config.json': '2' });
    const both = [join(work, 'a/config.json'), join(work, 'b/config.json')];
    const message = await refused({ serializedFile: identity, extraFiles: both.join(',') });
    for (const file of both) expect(message).toContain(file);
    expect(message).toContain('"config.json"');
    expect(await pack({ serializedFile: identity, extraFiles: `${both[0]},b/config.json=${both[1]}` })).toContain(
      'b/config.json',
    );
  });

  it('a name that would be both file and folder', async () => {
    await write({ 'a/x': '1', 'b/x/y': '2' });
    for (const order of [`${join(work, 'a')},${join(work, 'b')}`, `${join(work, 'b')},${join(work, 'a')}`]) {
      expect(await refused({ serializedFile: identity, extraFiles: order })).toContain('"x" would be both');
    }
  });

  it('the same file twice is no collision', async () => {
    await write({ 'a.txt': '1' });
    expect(await pack({ serializedFile: identity, extraFiles: `${join(work, 'a.txt')}, ${join(work, 'a.txt')}` })).toContain(
      'a.txt',
    );
  });

  it('a file that is not there, a target outside, a manifest of their own', async () => {
    expect(await refused({ serializedFile: identity, extraFiles: 'gone.txt' })).toContain('gone.txt');
    expect(await refused({ serializedFile: identity, extraFiles: `../x=${identity}` })).toContain('../x');
    await write({ 'extra/MAR-INF/MANIFEST.json': '{}' });
    expect(await refused({ serializedFile: identity, extraFiles: join(work, 'extra') })).toContain('MAR-INF/MANIFEST.json');
  });
});

describe('config', () => {
  it.each([
    ['minWorkers: lots\n', 'c.yaml:1: minWorkers must be an integer, not "lots"'],
    ['models:\n  m:\n    batchSize: 1.5\n', 'c.yaml:3: batchSize'],
    ['m:\n  useJobTicket: maybe\n', 'c.yaml:2: useJobTicket must be true or false'],
    ['minWorkers: [1\n  : }\n', 'c.yaml:'],
    ['- a\n', 'must hold settings'],
    ['handler: gone.js\n', '"gone.js"'],
    ['onnx:\n  sessions:\n    det: gone.onnx\n', '"gone.onnx"'],
    ['onnx: fast\n', 'onnx must be a map'],
  ])('%j is refused', async (text, says) => {
    await write({ 'c.yaml': text });
    expect(await refused({ serializedFile: identity, configFile: join(work, 'c.yaml') })).toContain(says);
  });

  it('a sound one is packed', async () => {
    await write({ 'c.yaml': 'minWorkers: 1\nmine: {a: [1]}\nonnx:\n  model: identity-fp32.onnx\n' });
    await pack({ serializedFile: identity, configFile: join(work, 'c.yaml') });
    expect(JSON.parse(await packed('MAR-INF/MANIFEST.json'))).toMatchObject({ model: { configFile: 'c.yaml' } });
  });
});

describe('options', () => {
  it.each<[Partial<ArchiveOptions>, string]>([
    [{ modelName: 'a/b' }, '--model-name'],
    [{ modelName: '..' }, '--model-name'],
    [{ version: '' }, '--version'],
    [{ runtime: 'cobol' }, '--runtime'],
    [{ exportPath: '/no/such/folder' }, '--export-path'],
    [{ serializedFile: undefined }, '--handler'],
    [{ serializedFile: 'gone.onnx' }, '--serialized-file'],
    [{ requirementsFile: 'gone.txt' }, '--requirements-file'],
  ])('%j names %s', async (options, says) => {
    expect(await refused({ serializedFile: identity, ...options })).toContain(says);
  });

  it('an archive that exists stays, unless forced', async () => {
    await write({ 'out/m.mar': 'mine' });
    const options = { modelName: 'm', version: '1.0', exportPath: out, serializedFile: identity };
    await expect(archive(options)).rejects.toThrow(/m\.mar already exists.*--force/);
    expect(await readFile(join(out, 'm.mar'), 'utf8')).toBe('mine');
    await archive({ ...options, force: true });
    expect((await readFile(join(out, 'm.mar'))).subarray(0, 2).toString()).toBe('PK');
    expect(await readdir(out)).toEqual(['m.mar']);
  });

  it('progress and warnings are told', async () => {
    await write({ 'requirements.txt': 'torch', 'handler.ts': 'export default {}' });
    const lines: string[] = [];
    const warnings: string[] = [];
    await pack({
      handler: join(work, 'handler.ts'),
      serializedFile: identity,
      requirementsFile: join(work, 'requirements.txt'),
      onProgress: (line) => lines.push(line),
      onWarning: (line) => warnings.push(line),
    });
    expect(lines.map((line) => line.split(' ')[0])).toEqual(['Bundling', 'Loading', 'Writing']);
    expect(warnings).toEqual([expect.stringContaining('requirements.txt')]);
  });
});
