import { mkdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { manifest, writeZip } from '../conformance/lib/archives.mjs';

const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));

/** What goes into a model archive. */
export interface MarOptions {
  /** Default: the archive's own name. */
  readonly modelName?: string;
  /** Default `1.0`. */
  readonly version?: string | number;
  /** A TypeScript file of `test/fixtures/handlers/`, without `.ts`; it is bundled. */
  readonly handler?: string;
  /** JavaScript of a handler, instead of `handler`. */
  readonly handlerSource?: string;
  /** A file of `test/fixtures/models/`, with its extension, or an absolute path. */
  readonly model?: string;
  /** `model-config.yaml`. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  /** Fields of the manifest's model section that replace the usual ones; undefined leaves one out. */
  readonly manifest?: Readonly<Record<string, unknown>>;
}

const bundles = new Map<string, Promise<string>>();

/** One self-contained module, built once per test file. */
async function bundle(handler: string): Promise<string> {
  const result = await build({
    entryPoints: [join(fixtures, 'handlers', `${handler}.ts`)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'silent',
  });
  return result.outputFiles[0]?.text ?? '';
}

async function handlerCode(options: MarOptions): Promise<string | undefined> {
  if (options.handlerSource !== undefined) return options.handlerSource;
  if (options.handler === undefined) return undefined;
  const known = bundles.get(options.handler) ?? bundle(options.handler);
  bundles.set(options.handler, known);
  return await known;
}

/** Writes `folder/name.mar`. @returns its path */
export async function makeMar(folder: string, name: string, options: MarOptions): Promise<string> {
  const files: Record<string, string | Uint8Array> = { ...options.files };
  const code = await handlerCode(options);
  if (code !== undefined) files['handler.mjs'] = code;
  const model = options.model === undefined ? undefined : basename(options.model);
  if (options.model !== undefined && model !== undefined) {
    files[model] = await readFile(options.model.startsWith('/') ? options.model : join(fixtures, 'models', options.model));
  }
  if (options.config !== undefined) files['model-config.yaml'] = JSON.stringify(options.config);
  files['MAR-INF/MANIFEST.json'] = manifest({
    modelName: options.modelName ?? name,
    modelVersion: options.version ?? '1.0',
    handler: code === undefined ? undefined : 'handler.mjs',
    serializedFile: model,
    configFile: options.config === undefined ? undefined : 'model-config.yaml',
    ...options.manifest,
  });
  await mkdir(folder, { recursive: true });
  const path = join(folder, `${name}.mar`);
  await writeZip(path, files);
  return path;
}
