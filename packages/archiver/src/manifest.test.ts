import { describe, expect, it } from 'vitest';
import { formatCreatedOn, formatManifest, ManifestError, parseManifest } from './manifest.js';

function field(text: string): string | undefined {
  try {
    parseManifest(text);
    return undefined;
  } catch (error) {
    return error instanceof ManifestError ? error.field : String(error);
  }
}

describe('reading', () => {
  it("what TorchServe's archiver wrote", () => {
    const text =
      '{"createdOn":"30/11/2026 09:25:59","runtime":"python","model":{"modelName":"kit","handler":"kit.py","modelVersion":"1.0",' +
      '"configFile":"kit.yaml"},"archiverVersion":"0.12.0"}';
    expect(parseManifest(text)).toMatchObject({
      createdOn: '30/11/2026 09:25:59',
      runtime: 'python',
      archiverVersion: '0.12.0',
      model: { modelName: 'kit', handler: 'kit.py', modelVersion: '1.0', configFile: 'kit.yaml' },
    });
  });

  it('defaults, numbers as text, empty as absent', () => {
    expect(parseManifest('{"model": {}}')).toMatchObject({
      runtime: 'python',
      model: { modelVersion: '1.0', modelName: undefined },
    });
    expect(parseManifest('{"model": {"modelVersion": 7, "modelName": 5}}').model).toMatchObject({
      modelVersion: '7',
      modelName: '5',
    });
    expect(parseManifest('{"runtime": null, "model": {"handler": ""}}')).toMatchObject({
      runtime: 'python',
      model: { handler: undefined },
    });
  });

  it('byte order mark and CRLF', () => {
    expect(parseManifest('\uFEFF{\r\n"model": {\r\n"modelName": "m"}}\r\n').model.modelName).toBe('m');
  });

  it.each([
    ['', ''],
    ['[]', ''],
    ['null', ''],
    ['{"model": ', ''],
    ['{}', 'model'],
    ['{"model": "m"}', 'model'],
    ['{"model": {}, "runtime": "cobol"}', 'runtime'],
    ['{"model": {"modelName": {}}}', 'model.modelName'],
    ['{"model": {"modelVersion": true}}', 'model.modelVersion'],
    ['{"model": {"handler": ["a"]}}', 'model.handler'],
  ])('%j is refused over field %j', (text, name) => {
    expect(field(text)).toBe(name);
  });
});

it('what is written is read back, without the fields that say nothing', () => {
  const manifest = { runtime: 'node', model: { modelName: 'm', modelVersion: '1.0', handler: 'handler.js' } };
  const text = formatManifest(manifest);
  expect(parseManifest(text)).toMatchObject(manifest);
  expect(text).not.toContain('serializedFile');
});

it('dates have the form of TorchServe', () => {
  expect(formatCreatedOn(new Date(2026, 0, 2, 3, 4, 5))).toBe('02/01/2026 03:04:05');
});
