import { createWriteStream } from 'node:fs';
import { copyFile, lstat, mkdir, realpath, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ServeError } from '../domain/errors.js';
import { entryPath, isInside } from './entry-path.js';

export interface ArchiveLimits {
  /** Bytes that an archive may unpack to. */
  readonly maxArchiveSize: number;
  /** How many bytes one byte of the archive may become; counts once more than a megabyte was unpacked. */
  readonly maxArchiveRatio: number;
}

const maxEntries = 100_000;
const ratioFloor = 1 << 20;

/** Where unpacked entries go: checks every path, counts every byte, sets links last. */
export class ArchiveSink {
  readonly #root: string;
  readonly #limits: ArchiveLimits;
  readonly #archiveBytes: number;
  readonly #links: Array<{ readonly path: string; readonly target: string }> = [];
  readonly #seen = new Set<string>();
  #bytes = 0;
  #entries = 0;

  /**
   * @param root an empty folder of our own, absolute and without links in it
   * @param archiveBytes size of the archive file
   */
  constructor(root: string, archiveBytes: number, limits: ArchiveLimits) {
    this.#root = root;
    this.#archiveBytes = archiveBytes;
    this.#limits = limits;
  }

  /** Takes note of inflated bytes. @throws {ServeError} INVALID_MODEL over a limit */
  count(bytes: number): void {
    this.#bytes += bytes;
    const { maxArchiveSize, maxArchiveRatio } = this.#limits;
    if (this.#bytes > maxArchiveSize) {
      throw new ServeError(
        'INVALID_MODEL',
        `The archive unpacks to more than ${maxArchiveSize} bytes, the limit set by max_archive_size.`,
        { reason: 'input-too-large' },
      );
    }
    if (this.#bytes > ratioFloor && this.#bytes > this.#archiveBytes * maxArchiveRatio) {
      throw new ServeError(
        'INVALID_MODEL',
        `The archive of ${this.#archiveBytes} bytes unpacks to more than ${maxArchiveRatio} times its size, the limit set by max_archive_ratio.`,
        { reason: 'input-too-large' },
      );
    }
  }

  async directory(name: string): Promise<void> {
    this.#countEntry();
    const path = entryPath(name);
    if (path !== '') await this.#mkdir(join(this.#root, path), name);
  }

  /**
   * Writes one file.
   * @param open opens the content, once the name was found good: a stream that nobody listens to yet must not exist, since its error would
   *   take the process down
   * @param counted whether the caller counts the bytes itself
   */
  async file(name: string, open: () => Readable | Promise<Readable>, counted = false): Promise<void> {
    const path = await this.#claim(name);
    const content = await open();
    // Streams may report once more after the pipeline has ended with an error.
    content.on('error', () => undefined);
    const sink = createWriteStream(path, { flags: 'wx', mode: 0o600 });
    if (counted) return await pipeline(content, sink);
    const counter = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        try {
          this.count(chunk.length);
          done(null, chunk);
        } catch (error) {
          done(error as Error);
        }
      },
    });
    await pipeline(content, counter, sink);
  }

  /** A link of a tar archive to an entry before it becomes a copy of that. */
  async hardLink(name: string, target: string): Promise<void> {
    const from = join(this.#root, entryPath(target));
    const found = await lstat(from).catch(() => undefined);
    if (!found?.isFile()) throw broken(`links ${quoted(name)} to ${quoted(target)}, which is no file before it`);
    this.count(found.size);
    await copyFile(from, await this.#claim(name));
  }

  async symbolicLink(name: string, target: string): Promise<void> {
    this.#links.push({ path: await this.#claim(name), target });
  }

  /** Sets the links, which are left to the end so that nothing is ever written through one. */
  async finish(): Promise<void> {
    for (const { path, target } of this.#links) await symlink(target, path);
    // Checked on the disk, since links that lead through links can climb where their text does not.
    for (const { path, target } of this.#links) {
      const real = await realpath(path).catch(() => undefined);
      if (real === undefined || !isInside(this.#root, real)) {
        throw broken(`has a link to ${quoted(target)}, which is not inside the archive; such archives are refused`);
      }
    }
  }

  async #claim(name: string): Promise<string> {
    this.#countEntry();
    const path = entryPath(name);
    if (path === '') throw broken(`has an entry with the name ${quoted(name)}`);
    if (this.#seen.has(path)) throw broken(`has two entries named ${quoted(path)}; it is unclear which one counts`);
    this.#seen.add(path);
    const absolute = join(this.#root, path);
    await this.#mkdir(dirname(absolute), name);
    return absolute;
  }

  async #mkdir(path: string, name: string): Promise<void> {
    try {
      await mkdir(path, { recursive: true, mode: 0o700 });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EEXIST' && code !== 'ENOTDIR') throw error;
      throw broken(`uses a part of ${quoted(name)} both as a file and as a folder`);
    }
  }

  #countEntry(): void {
    this.#entries += 1;
    if (this.#entries > maxEntries) throw broken(`has more than ${maxEntries} entries`);
  }
}

function broken(what: string): ServeError {
  return new ServeError('INVALID_MODEL', `The archive ${what}.`);
}

function quoted(text: string): string {
  return JSON.stringify(text);
}
