import { cp, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ProjectFile } from './report.js';

/**
 * Puts the files of an archive and those to work on into a folder. What is there already is left alone: somebody may have worked on it.
 * @returns what was left alone, in sentences
 */
export async function writeProject(
  output: string,
  folder: string,
  root: string,
  files: readonly ProjectFile[],
): Promise<string[]> {
  const target = join(output, folder);
  await mkdir(join(output, 'model-store'), { recursive: true });
  // Links were checked to lead nowhere outside; their contents are what counts.
  await cp(root, target, {
    recursive: true,
    force: false,
    dereference: true,
    filter: (from) => !/^(mar|war)-inf$/i.test(basename(from)),
  });
  const kept: string[] = [];
  for (const { name, text } of files) {
    try {
      await writeFile(join(target, name), text, { flag: 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      kept.push(`${folder}/${name} is there already and was left alone`);
    }
  }
  return kept;
}
