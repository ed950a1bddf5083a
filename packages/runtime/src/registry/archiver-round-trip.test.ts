import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { archive, archiveFormats } from '@onnxserve/archiver';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openArchive } from './open-archive.js';

const model = fileURLToPath(new URL('../../../../test/fixtures/models/external-subfolder/model.onnx', import.meta.url));
let work: string;
beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'round-trip-'));
  await mkdir(join(work, 'store'));
  await writeFile(
    join(work, 'handler.ts'),
    `import { PredictionError } from '@onnxserve/handler-kit';\nexport default { PredictionError };`,
  );
  await writeFile(join(work, 'config.yaml'), 'batchSize: 3\n');
  await mkdir(join(work, 'extra/deep'), { recursive: true });
  await writeFile(join(work, 'extra/deep/größe.txt'), 'deep');
});
afterEach(() => rm(work, { recursive: true, force: true }));

it.each(archiveFormats)('what the archiver writes as %s opens', async (archiveFormat) => {
  const { path } = await archive({
    modelName: 'round',
    version: '2.1',
    handler: join(work, 'handler.ts'),
    serializedFile: model,
    configFile: join(work, 'config.yaml'),
    extraFiles: join(work, 'extra'),
    exportPath: join(work, 'store'),
    archiveFormat,
  });
  const url = (await readdir(join(work, 'store'))).join();
  expect(path).toBe(join(work, 'store', url));
  const environment = {
    modelStore: join(work, 'store'),
    tempDirectory: join(work, 'temp'),
    allowedUrls: [],
    limits: { maxArchiveSize: 1 << 24, maxArchiveRatio: 200 },
  };
  const opened = await openArchive({ url: url }, environment);
  const inside = (file: string) => join(opened.directory, file);
  expect(opened).toMatchObject({
    name: 'round',
    version: '2.1',
    runtime: 'node',
    handler: { kind: 'module', file: inside('handler.js'), exportName: 'default' },
    modelFile: inside('model.onnx'),
    hasConfigFile: true,
    config: { batchSize: 3 },
    warnings: [],
  });
  expect(await readFile(inside('deep/größe.txt'), 'utf8')).toBe('deep');
  await opened.dispose();
  expect(await readdir(join(work, 'store'))).toEqual([url]);
});
