import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AnyHandler } from '@onnxserve/handler-kit';
import { type Payload, runHandler, type RunOptions, type TestResults } from '@onnxserve/handler-kit/testing';
import { blocks, page, root } from './markdown.js';

export interface CompiledBlocks {
  /** The files that the comments before the blocks name, in order. */
  readonly files: readonly string[];
  /** Where the compiled files are. */
  readonly folder: string;
  /** Runs the handler of a file, `a.ts`, in memory. */
  run(file: string, payloads: readonly Payload[], options?: RunOptions): Promise<TestResults>;
  /** Handlers that `run` was not called for. */
  notRun(): string[];
  remove(): void;
}

/** Compiles the TypeScript blocks of a page together, as a user's project would. @throws with what the compiler says */
export function compileBlocks(path: string): CompiledBlocks {
  const temporary = mkdtempSync(join(tmpdir(), 'onnxserve-docs-'));
  const remove = () => rmSync(temporary, { recursive: true, force: true });
  const folder = join(temporary, 'built');
  const code = blocks(page(path)).filter(({ language }) => language === 'ts');
  const files = code.map(({ mark }, index) => (mark?.kind === 'file' ? mark.value : `unnamed-${index}.ts`));
  for (const [index, { code: text }] of code.entries()) writeFileSync(join(temporary, files[index]!), text);
  symlinkSync(join(root, 'node_modules'), join(temporary, 'node_modules'));
  writeFileSync(join(temporary, 'package.json'), '{"type":"module"}');
  const compilerOptions = { outDir: folder, rootDir: temporary, typeRoots: [join(root, 'node_modules/@types')] };
  const options = { extends: join(root, 'tsconfig.base.json'), compilerOptions, include: ['*.ts'] };
  writeFileSync(join(temporary, 'tsconfig.json'), JSON.stringify(options));
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, '-p', temporary], { encoding: 'utf8' });
  if (status !== 0) {
    remove();
    throw new Error(`code of ${path} does not compile:\n${stdout}${stderr}`);
  }
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(temporary, 'package.json'), join(folder, 'package.json'));
  const left = new Set(files.filter((file) => !file.endsWith('.test.ts')));
  return {
    files,
    folder,
    remove,
    notRun: () => [...left],
    async run(file, payloads, runOptions = {}) {
      left.delete(file);
      const { default: handler } = (await import(join(folder, file.replace(/\.ts$/, '.js')))) as { default: AnyHandler };
      return await runHandler(handler, payloads, runOptions);
    },
  };
}
