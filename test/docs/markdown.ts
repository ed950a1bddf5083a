import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Page {
  /** From the checkout's root. */
  readonly path: string;
  readonly text: string;
}

export interface Block {
  readonly page: string;
  readonly language: string;
  readonly code: string;
  /** What the comment before the block says: `<!-- file: a.ts -->` is `{ kind: 'file', value: 'a.ts' }`. */
  readonly mark: { readonly kind: string; readonly value: string } | undefined;
}

export function page(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

/** The pages that users read: of the root, of docs, and the README of each package and example. */
export function pages(): Page[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => join('docs', name));
  const folders = ['packages', 'packages/examples'].flatMap((parent) =>
    readdirSync(join(root, parent), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules')
      .map((entry) => join(parent, entry.name)),
  );
  const readmes = folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)));
  return [...readdirSync(root), ...docs, ...readmes]
    .filter((path) => path.endsWith('.md'))
    .map((path) => page(relative(root, join(root, path))));
}

export function blocks({ path, text }: Page): Block[] {
  const found = text.matchAll(/(?:^<!-- (\w+): ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$/gms);
  return [...found].map(([, kind, value, language = '', code = '']) => ({
    page: path,
    language,
    code,
    mark: kind === undefined || value === undefined ? undefined : { kind, value },
  }));
}

/** The block that the comment marks as such. @throws when there is none */
export function marked(from: Page, kind: string, value: string): Block {
  const block = blocks(from).find(({ mark }) => mark?.kind === kind && mark.value === value);
  if (block === undefined) throw new Error(`${from.path} has no block marked "${kind}: ${value}"`);
  return block;
}

/** The commands of a shell block: continued lines joined, comments dropped. */
export function commands({ code }: Block): string[] {
  return code
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .filter((line) => line !== '');
}
