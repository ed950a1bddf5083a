import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeTokens } from './make-tokens.js';

it('writes no key in the place of one that was given', () => {
  const folder = mkdtempSync(join(tmpdir(), 'made-tokens-'));
  const keyFile = join(folder, 'key_file.json');
  const config = { keyFile, keyFileMayMove: false, tempDirectory: folder, lifetimeMinutes: 60 };
  const given = { management: { from: 'ONNXSERVE_MANAGEMENT_TOKEN', value: 'given' } };
  const tokens = makeTokens({ ...config, required: new Set(['inference', 'management']), given }, () => undefined);
  tokens?.publish();
  const text = readFileSync(keyFile, 'utf8');
  expect(Object.keys(JSON.parse(text) as object)).toEqual(['inference', 'API']);
  expect(tokens?.check('management', 'Bearer given')).toBeUndefined();
  rmSync(folder, { recursive: true });
});
