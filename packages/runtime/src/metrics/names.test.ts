import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { families, type FamilySpec } from './names.js';

const all = Object.values<FamilySpec>(families);

function row({ name, type, labels, unit, help }: FamilySpec): string {
  return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${unit} | ${help} |`;
}

it.each(['torchserve', 'own'] as const)('the reference lists the families of group %s as they are', (group) => {
  const text = readFileSync(new URL('../../../../docs/metrics.md', import.meta.url), 'utf8');
  const listed = text.split('\n').filter((line) => /^\| `[^`]+` \| (counter|gauge|histogram) \|/.test(line));
  const rows = all.filter((spec) => spec.group === group).map(row);
  for (const it of rows) expect(listed).toContain(it);
  expect(listed).toHaveLength(all.length);
});

it('names follow the rules of the format', () => {
  expect(new Set(all.map((spec) => spec.name)).size).toBe(all.length);
  for (const spec of all) {
    expect(spec.name).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
    if (spec.group === 'own') {
      expect(spec.name.startsWith('onnxserve_')).toBe(true);
      expect(spec.name.endsWith('_total')).toBe(spec.type === 'counter');
    }
    expect((spec.buckets ?? []).every((bound, at, bounds) => at === 0 || bound > (bounds[at - 1] ?? 0))).toBe(true);
    expect(spec.buckets === undefined).toBe(spec.type !== 'histogram');
  }
});
