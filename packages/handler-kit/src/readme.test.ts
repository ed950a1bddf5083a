import { readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
const examples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => match[1]!);

it('has an example that runs as it stands', async () => {
  expect(examples).toHaveLength(1);
  const local: Record<string, string> = {
    '': './index.js',
    '/postprocess': './postprocess/index.js',
    '/testing': './testing/index.js',
  };
  const code = examples[0]!.replace(
    /'@onnxserve\/handler-kit([^']*)'/g,
    (_, path: string) => `'${local[path] ?? 'no such entry point'}'`,
  );
  const file = fileURLToPath(new URL(`./readme-example-${process.pid}.ts`, import.meta.url));
  await writeFile(file, code);
  try {
    await import(/* @vite-ignore */ file);
  } finally {
    await rm(file);
  }
});

it('names only entry points that the package exports', async () => {
  const { exports } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')) as {
    exports: Record<string, unknown>;
  };
  const named = new Set([...readme.matchAll(/@onnxserve\/handler-kit(\/[a-z/*]+)/g)].map((match) => `.${match[1]!}`));
  expect(named.size).toBeGreaterThan(4);
  for (const path of named) expect(Object.keys(exports)).toContain(path);
});
