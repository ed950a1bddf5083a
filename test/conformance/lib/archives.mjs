// Writes model archives as TorchServe's archiver lays them out.
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { create } from 'tar';
import { ZipFile } from 'yazl';

/** @typedef {Record<string, string | Uint8Array>} Files contents by path inside the archive */

const fixedTime = new Date('2026-01-01T00:00:00Z');

/** @param {string} path @param {Files} files */
export async function writeZip(path, files) {
  const zip = new ZipFile();
  for (const [name, content] of Object.entries(files)) zip.addBuffer(Buffer.from(content), name, { mtime: fixedTime });
  zip.end();
  await pipeline(zip.outputStream, createWriteStream(path));
}

/** @param {string} directory @param {Files} files */
export async function writeFolder(directory, files) {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
  }
}

/** Contents at the root of the archive. @param {string} path @param {Files} files */
export async function writeTgz(path, files) {
  const folder = await mkdtemp(join(tmpdir(), 'tgz-'));
  try {
    await writeFolder(folder, files);
    await create({ gzip: true, file: path, cwd: folder, portable: true }, Object.keys(files));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * A zip that climbs out of its folder. No zip library writes such a name, so a name of the same length is replaced in the bytes.
 * @param {string} path @param {Files} files @param {string} name the climbing name
 */
export async function writeClimbingZip(path, files, name) {
  const placeholder = 'x'.repeat(name.length);
  await writeZip(path, { ...files, [placeholder]: 'slipped' });
  const bytes = await readFile(path);
  for (let at = bytes.indexOf(placeholder); at >= 0; at = bytes.indexOf(placeholder)) bytes.write(name, at, 'latin1');
  await writeFile(path, bytes);
}

/**
 * MANIFEST.json of a model archive.
 * @param {Record<string, unknown> | undefined} model
 * @param {Record<string, unknown>} [more] other top-level keys; `runtime: undefined` leaves it out
 */
export function manifest(model, more = {}) {
  return JSON.stringify(
    { createdOn: '01/01/2026 00:00:00', runtime: 'python', model, archiverVersion: '0.12.0', ...more },
    null,
    2,
  );
}
