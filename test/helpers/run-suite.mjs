// Bundles a suite, which is TypeScript, and runs it with the arguments given.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** @param {string} name folder of the suite under test/, with its main.ts */
export async function runSuite(name) {
  // Two levels below the repository's root, as the helpers are, which find the command and the fixtures from there.
  const bundle = new URL(`../dist/${name}.mjs`, import.meta.url);
  await build({
    entryPoints: [fileURLToPath(new URL(`../${name}/main.ts`, import.meta.url))],
    outfile: fileURLToPath(bundle),
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: 'inline',
    logLevel: 'error',
  });
  await import(bundle.href);
}
