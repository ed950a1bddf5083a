import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createGunzip } from 'node:zlib';
import { Parser, type ReadEntry } from 'tar';
import { openPromise, type Entry } from 'yauzl';
import { ServeError } from '../domain/errors.js';
import { ArchiveSink, type ArchiveLimits } from './archive-sink.js';

const linkTargetLimit = 4096;

/**
 * Unpacks a zip or a gzipped tar, told apart by content, into an empty folder. The caller removes the folder when it fails.
 * @throws {ServeError} INVALID_MODEL naming the file and what is wrong with it; INTERNAL when the disk is full
 */
export async function unpack(file: string, shownName: string, into: string, limits: ArchiveLimits): Promise<void> {
  try {
    const sink = new ArchiveSink(into, (await stat(file)).size, limits);
    switch (await formatOf(file)) {
      case 'zip':
        await unpackZip(file, sink);
        break;
      case 'gzip':
        await unpackTar(file, sink);
        break;
      case 'empty':
        throw new ServeError('INVALID_MODEL', 'The file is empty.');
      case 'unknown':
        throw new ServeError('INVALID_MODEL', 'The file is neither a zip nor a gzipped tar.');
    }
    await sink.finish();
  } catch (error) {
    throw describe(error, shownName, into);
  }
}

async function formatOf(file: string): Promise<'zip' | 'gzip' | 'empty' | 'unknown'> {
  const handle = await open(file, 'r');
  try {
    const { buffer: head, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    if (bytesRead === 0) return 'empty';
    if (head[0] === 0x50 && head[1] === 0x4b) return 'zip';
    return head[0] === 0x1f && head[1] === 0x8b ? 'gzip' : 'unknown';
  } finally {
    await handle.close();
  }
}

async function unpackZip(file: string, sink: ArchiveSink): Promise<void> {
  const zip = await openPromise(file, { autoClose: false });
  try {
    for await (const entry of zip.eachEntry()) {
      if (entry.isEncrypted()) throw new ServeError('INVALID_MODEL', `Its entry "${entry.fileName}" is encrypted.`);
      if (entry.compressionMethod !== 0 && entry.compressionMethod !== 8) {
        const what = `compression method ${entry.compressionMethod}; stored and deflate are supported`;
        throw new ServeError('INVALID_MODEL', `Its entry "${entry.fileName}" uses ${what}.`);
      }
      if (entry.fileName.endsWith('/')) await sink.directory(entry.fileName);
      else if (isLink(entry)) {
        if (entry.uncompressedSize > linkTargetLimit) throw new ServeError('INVALID_MODEL', 'A link of it has no sane target.');
        const target = await buffer(await zip.openReadStreamPromise(entry));
        await sink.symbolicLink(entry.fileName, target.toString('utf8'));
      } else await sink.file(entry.fileName, () => zip.openReadStreamPromise(entry));
    }
  } finally {
    zip.close();
  }
}

/** Made on Unix, and its mode says symbolic link. */
function isLink(entry: Entry): boolean {
  return entry.versionMadeBy >> 8 === 3 && ((entry.externalFileAttributes >>> 16) & 0o170000) === 0o120000;
}

async function unpackTar(file: string, sink: ArchiveSink): Promise<void> {
  let failure: unknown;
  // The parser hands out the next entry when the one before was read to its end, so writes never overlap.
  let writing: Promise<void> = Promise.resolve();
  const write = async (entry: ReadEntry) => {
    try {
      if (failure === undefined) return await writeTarEntry(entry, sink);
    } catch (error) {
      failure = error;
    }
    entry.resume();
  };
  const parser = new Parser({ strict: true, brotli: false, zstd: false });
  parser.on('entry', (entry: ReadEntry) => {
    writing = writing.then(() => write(entry));
  });
  parser.on('error', (error: unknown) => {
    failure ??= error;
  });
  const ended = new Promise<void>((done) => {
    parser.on('end', done);
    parser.on('error', () => done());
  });
  const source = createReadStream(file);
  const inflated = source.pipe(createGunzip());
  source.on('error', (error) => inflated.destroy(error));
  let first = true;
  try {
    for await (const chunk of inflated as AsyncIterable<Buffer>) {
      if (first && chunk[0] === 0x1f) throw new ServeError('INVALID_MODEL', 'It is compressed twice.');
      first = false;
      sink.count(chunk.length);
      if (!parser.write(chunk) && failure === undefined) {
        await Promise.race([new Promise((done) => parser.once('drain', () => done(undefined))), ended]);
      }
      if (failure !== undefined) throw failure;
    }
  } finally {
    source.destroy();
  }
  parser.end();
  await ended;
  await writing;
  if (failure !== undefined) throw failure;
}

async function writeTarEntry(entry: ReadEntry, sink: ArchiveSink): Promise<void> {
  const { path, type } = entry;
  if (type === 'File' || type === 'OldFile' || type === 'ContiguousFile')
    return await sink.file(path, () => Readable.from(entry), true);
  entry.resume();
  if (type === 'Directory') return await sink.directory(path);
  if (type === 'Link') return await sink.hardLink(path, entry.linkpath ?? '');
  if (type === 'SymbolicLink') return await sink.symbolicLink(path, entry.linkpath ?? '');
  throw new ServeError('INVALID_MODEL', `Its entry "${path}" is a ${type}; only files, folders and links belong there.`);
}

/** What a client is told of an error while unpacking. */
export function describe(error: unknown, shownName: string, into: string): ServeError {
  const prefix = `The archive "${shownName}" cannot be used`;
  if (error instanceof ServeError) {
    return new ServeError(error.code, `${prefix}: ${error.message}`, { reason: error.reason, cause: error });
  }
  const { code } = error as NodeJS.ErrnoException;
  const message = (error as Error).message.replace(/\.$/, '');
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const what = `No space is left for unpacking "${shownName}" in ${into}; free some or set another temp_directory.`;
    return new ServeError('INTERNAL', what, { reason: 'disk-full', cause: error });
  }
  if (code === 'EROFS' || code === 'EACCES') {
    return new ServeError('INTERNAL', `"${shownName}" cannot be unpacked in ${into}: ${message}.`, { cause: error });
  }
  return new ServeError('INVALID_MODEL', `${prefix}: ${message}.`, { cause: error });
}
