import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create } from 'tar';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ZipEntry, zipBytes } from '../../../../test/helpers/zip-bytes.js';
import { ServeError } from '../domain/errors.js';
import type { ArchiveEnvironment, ArchiveInput } from './archive-environment.js';
import type { ModelArchive } from './model-archive.js';
import { openArchive } from './open-archive.js';

const models = fileURLToPath(new URL('../../../../test/fixtures/models/', import.meta.url));
let work: string;
let store: string;
let temp: string;
const opened: ModelArchive[] = [];

beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'open-archive-'));
  store = join(work, 'store');
  temp = join(work, 'temp');
  await mkdir(store);
  await mkdir(temp);
});
afterEach(async () => {
  for (const archive of opened.splice(0)) await archive.dispose();
  expect(await readdir(temp)).toEqual([]);
  await rm(work, { recursive: true, force: true });
});

async function open(url: string, more: Partial<ArchiveInput> = {}, environment: Partial<ArchiveEnvironment> = {}) {
  const limits = { maxArchiveSize: 64 << 20, maxArchiveRatio: 200 };
  const archive = await openArchive(
    { url, ...more },
    { modelStore: store, tempDirectory: temp, allowedUrls: [], limits, ...environment },
  );
  opened.push(archive);
  return archive;
}

/** The error, after checking that nothing of the archive is left in the temp directory. */
async function refused(url: string, more: Partial<ArchiveInput> = {}, environment: Partial<ArchiveEnvironment> = {}) {
  const before = await readdir(temp, { recursive: true });
  const error: unknown = await open(url, more, environment).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ServeError);
  expect(await readdir(temp, { recursive: true })).toEqual(before);
  return error as ServeError;
}

type Files = Readonly<Record<string, string | Uint8Array>>;

async function mar(name: string, files: Files, how: Partial<ZipEntry> = {}): Promise<void> {
  await writeFile(join(store, name), zipBytes(Object.entries(files).map(([path, data]) => ({ name: path, data, ...how }))));
}

async function folder(name: string, files: Files): Promise<void> {
  for (const [path, data] of Object.entries(files)) {
    await mkdir(dirname(join(store, name, path)), { recursive: true });
    await writeFile(join(store, name, path), data);
  }
}

const manifest = (model: object, more: object = {}) => JSON.stringify({ runtime: 'python', model, ...more });
const onnx = () => readFile(join(models, 'identity-fp32.onnx'));
const withHandler = (model: object = {}, more: Files = {}): Files => ({
  'MAR-INF/MANIFEST.json': manifest({ modelName: 'm', modelVersion: '1.0', handler: 'h.js', ...model }),
  'h.js': 'export default {}',
  ...more,
});

describe('where a model comes from', () => {
  it('a .mar file is unpacked, described, and gone after dispose', async () => {
    await mar('m.mar', withHandler({ modelVersion: '2.5' }, { 'sub/labels.txt': 'a' }));
    const archive = await open('m.mar');
    expect(archive).toMatchObject({
      name: 'm',
      version: '2.5',
      url: 'm.mar',
      runtime: 'python',
      hasConfigFile: false,
      warnings: [],
    });
    expect(archive.handler).toEqual({ kind: 'module', file: join(archive.directory, 'h.js'), exportName: 'default' });
    expect(archive.directory.startsWith(join(temp, `onnxserve-models-${process.pid}-`))).toBe(true);
    expect(await readFile(join(archive.directory, 'sub/labels.txt'), 'utf8')).toBe('a');
    await archive.dispose();
    await archive.dispose();
    expect(await readdir(temp)).toEqual([]);
    expect(await readdir(store)).toEqual(['m.mar']);
  });

  it('a folder of the store is used in place and never deleted', async () => {
    await folder('m', withHandler());
    const archive = await open('m');
    expect(archive).toMatchObject({ name: 'm', directory: join(store, 'm') });
    await archive.dispose();
    expect(await readdir(join(store, 'm'))).toEqual(['MAR-INF', 'h.js']);
  });

  it('an absolute path counts when it lies in the store, and is not found elsewhere', async () => {
    await folder('m', withHandler());
    expect((await open(join(store, 'm'))).name).toBe('m');
    expect(await refused(join(models, 'identity-fp32.onnx'))).toMatchObject({ code: 'MODEL_NOT_FOUND' });
    expect((await open(join(models, 'identity-fp32.onnx'), { trusted: true })).name).toBe('identity-fp32');
  });

  it.each([
    '',
    ' ',
    '.',
    './',
    'no.mar',
    '../x.mar',
    'a/../../x.mar',
    '..\\x.mar',
    'x\0.mar',
    '/etc/passwd',
    '/',
    'ftp://h/x.mar',
    's3://b/x.mar',
  ])('%j is not found', async (url) => {
    await writeFile(join(work, 'x.mar'), 'outside');
    expect(await refused(url)).toMatchObject({ code: 'MODEL_NOT_FOUND' });
  });

  it.each([
    ['top folder', true],
    ['contents at the root', false],
  ])('a .tar.gz with %s', async (_what, withTop) => {
    await folder('src/m', withHandler());
    const cwd = withTop ? join(store, 'src') : join(store, 'src/m');
    create({ gzip: true, sync: true, file: join(store, 'm.tar.gz'), cwd, portable: true }, [withTop ? 'm' : '.']);
    expect(await open('m.tar.gz')).toMatchObject({ name: 'm', version: '1.0' });
  });

  it('a zip with everything in one folder, and a folder of one', async () => {
    const nested = Object.fromEntries(Object.entries(withHandler()).map(([path, data]) => [`m/${path}`, data]));
    await mar('m.mar', nested);
    expect((await open('m.mar')).name).toBe('m');
    await folder('outer', nested);
    expect((await open('outer')).name).toBe('m');
  });

  it.each([
    ['lower-case folder', 'mar-inf/manifest.json', ''],
    ['backslashes', 'MAR-INF\\MANIFEST.json', ''],
    ['a byte order mark', 'MAR-INF/MANIFEST.json', '\uFEFF'],
  ])('a manifest with %s', async (_what, path, mark) => {
    const text = mark + manifest({ modelName: 'm', handler: 'h.js' }).replaceAll(',', ',\r\n');
    await mar('m.mar', { [path]: text, 'h.js': '' });
    expect(await open('m.mar')).toMatchObject({ name: 'm', version: '1.0' });
  });
});

describe('bare models', () => {
  it('an .onnx file is named after itself and speaks tensors', async () => {
    await cp(join(models, 'identity-fp32.onnx'), join(store, 'net.onnx'));
    expect(await open('net.onnx')).toMatchObject({
      name: 'net',
      version: '1.0',
      handler: { kind: 'tensor' },
      modelFile: join(store, 'net.onnx'),
    });
    expect((await open('net.onnx', { modelName: 'other' })).name).toBe('other');
  });

  it('NAME/VERSION/model.onnx: the highest number, or the version asked for', async () => {
    await folder('net', { '2/model.onnx': await onnx(), '10/model.onnx': await onnx(), 'notes/readme.txt': '' });
    expect(await open('net')).toMatchObject({ name: 'net', version: '10', modelFile: join(store, 'net/10/model.onnx') });
    expect(await open('net', { version: '2' })).toMatchObject({ name: 'net', version: '2' });
    expect(await open('net/2')).toMatchObject({ name: 'net', version: '2', modelFile: join(store, 'net/2/model.onnx') });
    const error = await refused('net', { version: '3' });
    expect(error).toMatchObject({ code: 'MODEL_VERSION_NOT_FOUND' });
    expect(error.message).toContain('2, 10');
  });

  it('a folder with a model and a config', async () => {
    await folder('net', { 'any.onnx': await onnx(), 'model-config.yaml': 'batchSize: 8\nmine: 1\n' });
    const archive = await open('net');
    expect(archive).toMatchObject({ name: 'net', modelFile: join(store, 'net/any.onnx'), hasConfigFile: true });
    expect(archive.config).toMatchObject({ batchSize: 8, free: { mine: 1 } });
  });

  it('a folder with several models says so', async () => {
    await folder('net', { 'a.onnx': await onnx(), 'b.onnx': await onnx() });
    expect((await refused('net')).message).toContain('a.onnx, b.onnx');
    await folder('nothing', { 'readme.txt': '' });
    expect((await refused('nothing')).message).toContain('no .onnx file');
  });
});

describe('manifest errors name the field', () => {
  it.each<[string, Files, string]>([
    ['no manifest', { 'h.js': '' }, 'MAR-INF/MANIFEST.json'],
    ['no JSON', { 'MAR-INF/MANIFEST.json': '{"model": ' }, 'not valid JSON'],
    ['no model', { 'MAR-INF/MANIFEST.json': '{}' }, '"model"'],
    ['no name', { 'MAR-INF/MANIFEST.json': manifest({ handler: 'h.js' }), 'h.js': '' }, '"model.modelName"'],
    ['name of a wrong type', withHandler({ modelName: ['m'] }), '"model.modelName"'],
    ['version of a wrong type', withHandler({ modelVersion: {} }), '"model.modelVersion"'],
    ['runtime', { 'MAR-INF/MANIFEST.json': manifest({ modelName: 'm' }, { runtime: 'cobol' }) }, '"runtime"'],
    ['handler not there', withHandler({ handler: 'nofile.js' }), 'nofile.js'],
    ['handler outside', withHandler({ handler: '../../h.js' }), '"model.handler"'],
    ['handler in Python', withHandler({ handler: 'k.py' }, { 'k.py': '' }), 'docs/migration.md'],
    ['handler in TypeScript', withHandler({ handler: 'k.ts' }, { 'k.ts': '' }), 'onnxserve archive'],
    ['serialized file not there', withHandler({ serializedFile: 'gone.onnx' }), '"model.serializedFile"'],
    ['neither handler nor model', { 'MAR-INF/MANIFEST.json': manifest({ modelName: 'm' }) }, 'no .onnx file'],
    [
      'a PyTorch model',
      { 'MAR-INF/MANIFEST.json': manifest({ modelName: 'm', serializedFile: 'm.pt' }), 'm.pt': '' },
      'Export the model to ONNX',
    ],
  ])('%s', async (_what, files, says) => {
    await mar('m.mar', files);
    const error = await refused('m.mar');
    expect(error).toMatchObject({ code: 'INVALID_MODEL' });
    expect(error.message).toContain(says);
  });

  it('the name: parameter, then manifest', async () => {
    await mar('file.mar', withHandler({ modelName: 'inside' }));
    expect((await open('file.mar')).name).toBe('inside');
    expect((await open('file.mar', { modelName: 'given' })).name).toBe('given');
    expect((await open('file.mar', { modelName: '' })).name).toBe('inside');
    await mar('noname.mar', withHandler({ modelName: undefined }));
    expect((await open('noname.mar', { modelName: 'given' })).name).toBe('given');
  });

  it('numbers count as text', async () => {
    await mar('m.mar', withHandler({ modelVersion: 7 }));
    expect((await open('m.mar')).version).toBe('7');
  });

  it('illegal names are refused, wherever they come from', async () => {
    await mar('m.mar', withHandler({ modelName: 'a/b' }));
    expect(await refused('m.mar')).toMatchObject({ code: 'BAD_REQUEST' });
    expect(await refused('m.mar', { modelName: '../../etc' })).toMatchObject({ code: 'BAD_REQUEST' });
    expect((await open('m.mar', { modelName: 'café: a b.c' })).name).toBe('café: a b.c');
  });

  it('runtimes', async () => {
    await mar('m.mar', withHandler());
    expect((await open('m.mar', { runtime: 'LSP' })).runtime).toBe('LSP');
    expect(await refused('m.mar', { runtime: 'cobol' })).toMatchObject({ code: 'INVALID_MODEL' });
  });
});

describe('handlers', () => {
  it('the parameter beats the config, the config the manifest, the manifest the default', async () => {
    const others = { 'p.js': '', 'c.js': '', 'd.js': '', 'c.yaml': 'handler: c.js\n' };
    const file = async (model: object, input: Partial<ArchiveInput> = {}) => {
      await mar('m.mar', withHandler(model, others));
      const { handler, directory } = await open('m.mar', input);
      return handler.kind === 'module' ? handler.file.slice(directory.length + 1) : handler.kind;
    };
    const all = { handler: 'p.js', defaultHandler: 'd.js' };
    expect(await file({ configFile: 'c.yaml' }, all)).toBe('p.js');
    expect(await file({ configFile: 'c.yaml' }, { defaultHandler: 'd.js' })).toBe('c.js');
    expect(await file({}, { defaultHandler: 'd.js' })).toBe('h.js');
    expect(await file({ handler: undefined }, { defaultHandler: 'd.js' })).toBe('d.js');
  });
});

describe('config file', () => {
  it('is read, with a warning for what looks like a mistake', async () => {
    await mar('m.mar', withHandler({ configFile: 'c.yaml' }, { 'c.yaml': 'batchSize: 4\nbatchsize: 5\n' }));
    const archive = await open('m.mar');
    expect(archive).toMatchObject({ hasConfigFile: true, config: { batchSize: 4 } });
    expect(archive.warnings.join('\n')).toContain('c.yaml:2');
  });

  it.each([
    ['no YAML', { 'c.yaml': 'minWorkers: [1\n  : }\n' }],
    ['missing', {}],
  ])('%s: served without it, with a warning', async (_what, files) => {
    await mar('m.mar', withHandler({ configFile: 'c.yaml' }, files));
    const archive = await open('m.mar');
    expect(archive).toMatchObject({ hasConfigFile: false, config: { onnx: {}, free: {} } });
    expect(archive.warnings).toHaveLength(1);
    expect(archive.warnings[0]).toContain('c.yaml');
  });

  it('sessions and the main model by name', async () => {
    const config = 'onnx:\n  model: net/a.onnx\n  sessions:\n    det: net/b.onnx\n';
    const files = { 'c.yaml': config, 'net/a.onnx': await onnx(), 'net/b.onnx': await onnx() };
    await mar('m.mar', withHandler({ configFile: 'c.yaml' }, files));
    const { modelFile, sessionFiles, directory } = await open('m.mar');
    expect(modelFile).toBe(join(directory, 'net/a.onnx'));
    expect(sessionFiles).toEqual({ det: join(directory, 'net/b.onnx') });
    await mar('gone.mar', withHandler({ configFile: 'c.yaml' }, { 'c.yaml': config, 'net/a.onnx': await onnx() }));
    expect((await refused('gone.mar')).message).toMatch(/onnx\.sessions\.det.*net\/b\.onnx/i);
  });
});

describe('weights outside the ONNX file', () => {
  const read = (file: string) => readFile(join(models, file));

  it.each([
    ['beside it', 'external', 'weights.bin'],
    ['in a folder below', 'external-subfolder', 'data/weights.bin'],
  ])('%s', async (_what, fixture, weights) => {
    const files = { 'MAR-INF/MANIFEST.json': manifest({ modelName: 'm', serializedFile: 'model.onnx' }) };
    const model = await read(`${fixture}/model.onnx`);
    await mar('m.mar', { ...files, 'model.onnx': model, [weights]: await read(`${fixture}/${weights}`) });
    expect((await open('m.mar')).modelFile).toMatch(/model\.onnx$/);
    await mar('gone.mar', { ...files, 'model.onnx': model });
    const error = await refused('gone.mar');
    expect(error).toMatchObject({ code: 'INVALID_MODEL' });
    expect(error.message).toContain(`"${weights}"`);
    await mar('short.mar', { ...files, 'model.onnx': model, [weights]: 'abc' });
    expect((await refused('short.mar')).message).toContain('has only 3');
  });

  it('a path out of the archive', async () => {
    const model = await read('external/model.onnx');
    const at = model.indexOf('weights.bin');
    model.write('../ights.bi', at);
    await writeFile(join(store, 'ights.bi'), 'x'.repeat(100));
    await mkdir(join(store, 'net'));
    await writeFile(join(store, 'net/model.onnx'), model);
    expect((await refused('net')).message).toContain('not inside the archive');
  });
});

describe('what the server does not use is told', () => {
  it('Python requirements, package.json without node_modules', async () => {
    const files = { 'requirements.txt': 'torch', 'package.json': '{"dependencies": {"left-pad": "1"}}' };
    await mar('m.mar', withHandler({ requirementsFile: 'requirements.txt', envelope: 'json' }, files));
    const { warnings } = await open('m.mar');
    expect(warnings).toHaveLength(3);
    expect(warnings.join('\n')).toMatch(/requirements\.txt is not used[^]*package\.json[^]*envelope/);
    await mar('n.mar', withHandler({}, { ...files, 'node_modules/left-pad/index.js': '' }));
    expect((await open('n.mar')).warnings).toHaveLength(1);
  });

  it('an archive for other versions of what the server brings', async () => {
    const expects = JSON.stringify({ runtimeProvides: { sharp: '^0.35.0' }, handlerKit: '^0.1.0' });
    await mar('m.mar', withHandler({}, { 'MAR-INF/onnxserve.json': expects }));
    const kit = { '@onnxserve/handler-kit': '0.1.3' };
    expect((await open('m.mar', {}, { provides: { ...kit, sharp: '0.35.5' } })).name).toBe('m');
    const error = await refused('m.mar', {}, { provides: { ...kit, sharp: '0.36.0' } });
    expect(error).toMatchObject({ code: 'INVALID_MODEL' });
    expect(error.message).toMatch(/sharp \^0\.35\.0.*0\.36\.0/);
    expect((await refused('m.mar', {}, { provides: { sharp: '0.35.5' } })).message).toContain('handler-kit');
    expect((await open('m.mar')).name).toBe('m');
  });
});

it('a hostile archive leaves nothing', async () => {
  await mar('slip.mar', { ...withHandler(), '../../slipped.txt': 'x' });
  expect(await refused('slip.mar')).toMatchObject({ code: 'INVALID_MODEL' });
  expect((await readdir(work)).sort()).toEqual(['store', 'temp']);
});
