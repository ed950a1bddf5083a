import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { scenarios } from './scenarios-table.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const recorded = readFileSync(new URL('./torchserve/scenarios.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => (JSON.parse(line) as { id: string }).id);

it('every recorded scenario has its place in the table, and nothing else has', () => {
  expect(Object.keys(scenarios).toSorted()).toEqual(recorded.toSorted());
});

it.each(Object.entries(scenarios))('%s is covered by tests that exist', (_, coverage) => {
  expect(coverage.length).toBeGreaterThan(0);
  for (const [file, title] of coverage) expect(readFileSync(`${root}${file}`, 'utf8')).toContain(title);
});
