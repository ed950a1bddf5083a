import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { documentationTables } from './keys-markdown.js';

const page = readFileSync(new URL('../../../../docs/configuration.md', import.meta.url), 'utf8');

describe('docs/configuration.md', () => {
  it.each([...documentationTables()])('lists exactly what the code knows: %s', (name, table) => {
    const section = new RegExp(`<!-- ${name} -->\n([^]*?)<!-- /${name} -->`).exec(page)?.[1];
    // On a difference, replace the section of the page by the expected text.
    expect(section).toBe(table);
  });

  it('has no table that the code does not make', () => {
    const names = [...page.matchAll(/<!-- ([a-z-]+) -->/g)].map((match) => match[1]);
    expect(names).toEqual([...documentationTables().keys()]);
  });
});
