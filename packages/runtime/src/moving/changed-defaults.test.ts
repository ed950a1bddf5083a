import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { findKey } from '../config/keys.js';
import { changedDefaults } from './changed-defaults.js';

it('are what the server has, and what the documentation says', () => {
  const page = readFileSync(new URL('../../../../docs/configuration.md', import.meta.url), 'utf8');
  const table = page.split("### TorchServe's defaults that are different here")[1]?.split('\n### ')[0] ?? '';
  const documented = [...table.matchAll(/^\| `(\w+)` \| `(.*?)` \| (.*?) \|/gm)].map(([, key, torchserve, here]) => [
    key,
    torchserve?.replaceAll('\\|', '|'),
    here?.replaceAll('`', ''),
  ]);
  const own = changedDefaults.map(({ key, torchserve, here }) => [key, torchserve, here]);
  expect(documented).toHaveLength(own.length);
  expect(documented).toEqual(expect.arrayContaining(own));
  for (const { key, here } of changedDefaults) expect(findKey(key)?.default ?? 'empty').toBe(here);
});
