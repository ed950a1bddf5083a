import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BuildFailure, Message, Metafile } from 'esbuild';
import { ArchiveError } from './archive-error.js';
import { type Expectations, kitPackage, providedPackages, rangeOf } from './provides.js';

export interface BundledHandler {
  /** Name in the archive, for example `handler.js`. */
  readonly fileName: string;
  readonly content: Uint8Array;
  readonly expects: Expectations;
}

// CommonJS dependencies call require, which a module does not have.
const requireBanner =
  "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);";

/**
 * Bundles a handler and all it imports into one module. The kit and the native packages that the server brings stay outside.
 * @param file path of the .ts, .js or .mjs file
 * @param exportNames what it must export: the handler, or the functions of a workflow
 * @throws {ArchiveError} naming file, line and import
 */
export async function bundleHandler(file: string, exportNames: readonly string[]): Promise<BundledHandler> {
  if (!(await stat(file).catch(() => undefined))?.isFile()) throw new ArchiveError(`There is no handler file ${file}.`);
  const { build } = await import('esbuild');
  const run = (banner: string) =>
    build({
      entryPoints: [resolve(file)],
      bundle: true,
      write: false,
      outfile: 'handler.js',
      format: 'esm',
      platform: 'node',
      target: 'node20',
      sourcemap: 'inline',
      sourcesContent: true,
      metafile: true,
      logLevel: 'silent',
      external: [kitPackage, `${kitPackage}/*`, ...providedPackages, ...providedPackages.map((name) => `${name}/*`)],
      banner: { js: banner },
    });
  try {
    let result = await run('');
    if (result.outputFiles[0]!.text.includes('Dynamic require of')) result = await run(requireBanner);
    const output = Object.values(result.metafile.outputs)[0]!;
    const missing = exportNames.find((name) => !output.exports.includes(name));
    if (missing !== undefined) {
      const there = output.exports.length === 0 ? 'nothing' : output.exports.join(', ');
      const wanted = missing === 'default' ? 'no default (export default defineHandler({ ... }))' : `no "${missing}"`;
      throw new ArchiveError(`${file} exports ${wanted}; it exports ${there}.`);
    }
    return {
      fileName: `${basename(file, extname(file))}.js`,
      content: result.outputFiles[0]!.contents,
      expects: await expectations(output, dirname(resolve(file))),
    };
  } catch (error) {
    if (error instanceof ArchiveError) throw error;
    const { errors } = error as Partial<BuildFailure>;
    if (errors === undefined) throw error;
    throw new ArchiveError(`${file} cannot be bundled:\n${errors.map(describe).join('\n')}`);
  }
}

function describe({ text, location }: Message): string {
  const native = /No loader is configured for "\.node" files: (.*)/.exec(text)?.[1];
  const what =
    native === undefined
      ? text
      : `${native} is a native module, which cannot be bundled and which the server does not bring (it brings ${providedPackages.join(', ')})`;
  return location === null ? `  ${what}` : `  ${location.file}:${location.line}:${location.column + 1}: ${what}`;
}

async function expectations(output: Metafile['outputs'][string], from: string): Promise<Expectations> {
  const imported = output.imports.filter(({ external }) => external).map(({ path }) => path);
  const uses = (name: string) => imported.some((path) => path === name || path.startsWith(`${name}/`));
  const runtimeProvides: Record<string, string> = {};
  for (const name of providedPackages) {
    const version = uses(name) ? await installedVersion(name, from) : undefined;
    if (version !== undefined) runtimeProvides[name] = rangeOf(version);
  }
  const kit = uses(kitPackage) ? await installedVersion(kitPackage, from) : undefined;
  return { runtimeProvides, handlerKit: kit === undefined ? undefined : rangeOf(kit) };
}

/** Where the handler would find the package, else where the archiver does. */
async function installedVersion(name: string, from: string): Promise<string | undefined> {
  for (const start of [from, dirname(fileURLToPath(import.meta.url))]) {
    for (let folder = start; ; folder = dirname(folder)) {
      const text = await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8').catch(() => undefined);
      if (text !== undefined) return (JSON.parse(text) as { version?: string }).version;
      if (dirname(folder) === folder) break;
    }
  }
  return undefined;
}
