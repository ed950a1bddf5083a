import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, posix, relative, resolve, sep } from 'node:path';
import { ArchiveError } from './archive-error.js';
import { readExternalData } from './external-data.js';

/** What stands at one path of an archive. */
export type ArchiveEntry = { readonly source: string } | { readonly content: Uint8Array };

/** The files of an archive by their path inside it. Two different files for one path are an error. */
export class ArchiveFiles {
  readonly #entries = new Map<string, ArchiveEntry>();
  readonly #folders = new Set<string>();

  /** @throws {ArchiveError} naming both files */
  add(path: string, entry: ArchiveEntry): void {
    const there = this.#entries.get(path);
    if (there !== undefined && !same(there, entry)) {
      throw new ArchiveError(
        `${shown(there)} and ${shown(entry)} would both be "${path}" in the archive. ` +
          'Put them into folders below one that is given to --extra-files, or write --extra-files "other/name=file".',
      );
    }
    const folders: string[] = [];
    for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) folders.push(folder);
    const mixed = this.#folders.has(path) ? path : folders.find((folder) => this.#entries.has(folder));
    if (mixed !== undefined) throw new ArchiveError(`"${mixed}" would be both a file and a folder in the archive.`);
    for (const folder of folders) this.#folders.add(folder);
    this.#entries.set(path, entry);
  }

  has(path: string): boolean {
    return this.#entries.has(path);
  }

  entries(): Array<readonly [string, ArchiveEntry]> {
    return [...this.#entries];
  }
}

/**
 * Adds `--extra-files`: a file goes to the top under its own name, a folder's contents go to the top with their tree,
 * `path/inside=file` goes where it says.
 * @throws {ArchiveError}
 */
export async function addExtraFiles(files: ArchiveFiles, list: string): Promise<void> {
  for (const item of list.split(',').map((part) => part.trim())) {
    if (item === '') continue;
    const { source, target } = await parseItem(item);
    const found = await stat(source).catch(() => undefined);
    if (found === undefined) throw new ArchiveError(`--extra-files names ${source}, which does not exist.`);
    if (found.isDirectory()) await addFolder(files, source, target ?? '');
    else files.add(target ?? basename(source), { source: resolve(source) });
  }
}

async function parseItem(item: string): Promise<{ source: string; target: string | undefined }> {
  const equals = item.indexOf('=');
  if (equals <= 0 || (await stat(item).catch(() => undefined))) return { source: item, target: undefined };
  const target = posix.normalize(item.slice(0, equals).replaceAll('\\', '/')).replace(/\/$/, '');
  if (target.startsWith('/') || target.split('/').includes('..')) {
    throw new ArchiveError(`--extra-files: "${target}" is no path inside the archive.`);
  }
  return { source: item.slice(equals + 1), target: target === '.' ? '' : target };
}

async function addFolder(files: ArchiveFiles, folder: string, target: string): Promise<void> {
  for (const name of (await readdir(folder)).sort()) {
    const source = join(folder, name);
    const path = posix.join(target, name);
    if ((await stat(source)).isDirectory()) await addFolder(files, source, path);
    else files.add(path, { source: resolve(source) });
  }
}

/**
 * Adds the weights that ONNX files keep in files of their own, where the model looks for them.
 * @throws {ArchiveError} naming the file that is missing or would leave the archive
 */
export async function addExternalData(files: ArchiveFiles): Promise<void> {
  for (const [path, entry] of files.entries()) {
    if (!/\.onnx$/i.test(path) || !('source' in entry)) continue;
    for (const { location } of await readExternalData(entry.source)) {
      const source = resolve(dirname(entry.source), location);
      const target = posix.join(posix.dirname(path), location.replaceAll('\\', '/'));
      if (target.startsWith('../') || target.startsWith('/')) {
        throw new ArchiveError(`${entry.source} keeps weights in "${location}", which would lie outside the archive.`);
      }
      if (!(await stat(source).catch(() => undefined))?.isFile()) {
        throw new ArchiveError(`${entry.source} keeps weights in "${location}", and there is no file ${source}.`);
      }
      files.add(target, { source });
    }
  }
}

function same(left: ArchiveEntry, right: ArchiveEntry): boolean {
  return 'source' in left && 'source' in right && left.source === right.source;
}

function shown(entry: ArchiveEntry): string {
  if ('content' in entry) return 'a file that the archiver writes';
  const path = relative(process.cwd(), entry.source);
  return path.startsWith(`..${sep}`) ? entry.source : path;
}
