import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { create } from 'tar';
import { ZipFile } from 'yazl';
import { ArchiveError } from './archive-error.js';
import type { ArchiveEntry } from './collect-files.js';

export const archiveFormats = ['default', 'tgz', 'no-archive', 'zip-store'] as const;
export type ArchiveFormat = (typeof archiveFormats)[number];

type Entries = ReadonlyArray<readonly [string, ArchiveEntry]>;

/** Path of the archive: `NAME.mar`, `NAME.tar.gz` or the folder `NAME`. */
export function archivePath(folder: string, modelName: string, format: ArchiveFormat): string {
  const suffix = { default: '.mar', 'zip-store': '.mar', tgz: '.tar.gz', 'no-archive': '' }[format];
  return join(folder, modelName + suffix);
}

/**
 * Writes the archive. It appears under its name only when it is whole.
 * @throws {ArchiveError} when something is there already and `force` is not set
 */
export async function writeArchive(
  path: string,
  format: ArchiveFormat,
  entries: Entries,
  name: string,
  force: boolean,
): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there !== undefined && !force) {
    throw new ArchiveError(`${path} already exists. Use --force (-f) to overwrite it, or another --export-path.`);
  }
  // Beside the target, so that the last step is a rename on one file system.
  const work = await mkdtemp(join(dirname(path), '.onnxserve-archive-'));
  try {
    const whole = join(work, 'archive');
    switch (format) {
      case 'default':
      case 'zip-store':
        await writeZip(whole, entries, format === 'default');
        break;
      case 'tgz':
        // One folder at the top, as TorchServe's archiver has it.
        await writeFolder(join(work, 'tree', name), entries);
        await create({ gzip: true, file: whole, cwd: join(work, 'tree'), portable: true }, [name]);
        break;
      case 'no-archive':
        await writeFolder(whole, entries);
        break;
    }
    if (there !== undefined) await rm(path, { recursive: true });
    await rename(whole, path);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function writeZip(path: string, entries: Entries, compress: boolean): Promise<void> {
  const zip = new ZipFile();
  const mode = 0o100644;
  const failed = new Promise<never>((_done, fail) => zip.once('error', fail));
  for (const [name, entry] of entries) {
    if ('content' in entry) zip.addBuffer(Buffer.from(entry.content), name, { compress, mode });
    else zip.addReadStreamLazy(name, { compress, mode }, (done) => done(null, createReadStream(entry.source)));
  }
  zip.end();
  await Promise.race([pipeline(zip.outputStream, createWriteStream(path)), failed]);
}

async function writeFolder(folder: string, entries: Entries): Promise<void> {
  for (const [name, entry] of entries) {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    if ('content' in entry) await writeFile(path, entry.content);
    else await copyFile(entry.source, path);
  }
}
