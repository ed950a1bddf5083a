import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { create } from 'tar';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ZipEntry, zipBytes } from '../../../../test/helpers/zip-bytes.js';
import { ServeError } from '../domain/errors.js';
import { describe as describeFailure, unpack } from './unpack.js';

const limits = { maxArchiveSize: 64 << 20, maxArchiveRatio: 200 };
let work: string;
let into: string;

beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'unpack-'));
  into = join(work, 'deep', 'er', 'into');
  await mkdir(into, { recursive: true });
});
afterEach(() => rm(work, { recursive: true, force: true }));

async function unpackZip(entries: readonly ZipEntry[], use: typeof limits = limits): Promise<string[]> {
  return await unpackBytes(zipBytes(entries), use);
}

async function unpackBytes(bytes: Uint8Array, use: typeof limits = limits): Promise<string[]> {
  const file = join(work, 'a.mar');
  await writeFile(file, bytes);
  await unpack(file, 'a.mar', into, use);
  return await tree();
}

async function tree(): Promise<string[]> {
  const entries = await readdir(into, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  return files.map((entry) => join(entry.parentPath, entry.name).slice(into.length + 1)).sort();
}

async function refusal(run: Promise<unknown>): Promise<ServeError> {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ServeError);
  return error as ServeError;
}

/** A tar of one header each, for what the tar package would not write. */
function tarBytes(entries: ReadonlyArray<{ name: string; type?: string; link?: string; data?: string }>): Buffer {
  const blocks: Buffer[] = [];
  for (const { name, type = '0', link = '', data = '' } of entries) {
    const header = Buffer.alloc(512);
    header.write(name, 0);
    header.write('0000644\0', 100);
    header.write(`${data.length.toString(8).padStart(11, '0')}\0`, 124);
    header.write('00000000000\0', 136);
    header.write('        ', 148);
    header.write(type, 156);
    header.write(link, 157);
    header.write('ustar\x0000', 257);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    blocks.push(header, Buffer.concat([Buffer.from(data), Buffer.alloc((512 - (data.length % 512)) % 512)]));
  }
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

describe('harmless archives', () => {
  it.each<[string, Partial<ZipEntry>]>([
    ['deflated', {}],
    ['stored', { deflate: false }],
    ['with data descriptors', { descriptor: true }],
    ['with zip64 sizes', { zip64: true }],
  ])('a zip %s keeps tree and bytes', async (_what, how) => {
    expect(
      await unpackZip([
        { name: 'x/y/z.bin', data: 'payload', ...how },
        { name: 'top.txt', data: '', ...how },
      ]),
    ).toEqual(['top.txt', 'x/y/z.bin']);
    expect(await readFile(join(into, 'x/y/z.bin'), 'utf8')).toBe('payload');
  });

  it('backslashes of Windows archives are folders', async () => {
    expect(await unpackZip([{ name: 'a\\b\\c.txt', data: '1' }])).toEqual(['a/b/c.txt']);
  });

  it('folder entries may come after their files, and "./" is nothing', async () => {
    expect(await unpackZip([{ name: './d/e.txt', data: '1' }, { name: 'd/' }])).toEqual(['d/e.txt']);
  });

  it('unicode and spaces in names', async () => {
    expect(await unpackZip([{ name: 'größe und 日本.txt', data: '1' }])).toEqual(['größe und 日本.txt']);
  });

  it('a link to a file of the archive', async () => {
    await unpackZip([
      { name: 'sub/link', data: '../real.txt', mode: 0o120777 },
      { name: 'real.txt', data: 'real' },
    ]);
    expect(await readFile(join(into, 'sub/link'), 'utf8')).toBe('real');
  });

  it('a gzipped tar, whatever its name', async () => {
    await mkdir(join(work, 'src/top/inner'), { recursive: true });
    await writeFile(join(work, 'src/top/inner/a.txt'), 'A'.repeat(100_000));
    await writeFile(join(work, 'src/top/b.txt'), 'B');
    await symlink('inner/a.txt', join(work, 'src/top/link'));
    create({ gzip: true, sync: true, file: join(work, 't.mar'), cwd: join(work, 'src'), portable: true }, ['top']);
    await unpack(join(work, 't.mar'), 't.mar', into, limits);
    expect(await tree()).toEqual(['top/b.txt', 'top/inner/a.txt', 'top/link']);
    expect((await readFile(join(into, 'top/link'), 'utf8')).length).toBe(100_000);
  });

  it('a hard link of a tar becomes a copy', async () => {
    await unpackBytes(
      tarBytes([
        { name: 'a', data: 'one' },
        { name: 'b', type: '1', link: 'a' },
      ]),
    );
    expect(await readFile(join(into, 'b'), 'utf8')).toBe('one');
  });
});

describe('archives that reach outside are refused and write nothing there', () => {
  it.each([
    '../../slipped.txt',
    '/etc/slipped.txt',
    'C:\\slipped.txt',
    'C:/slipped.txt',
    'a/../../slipped.txt',
    '..\\..\\slipped.txt',
  ])('zip entry %s', async (name) => {
    const error = await refusal(unpackZip([{ name, data: 'x' }]));
    expect(error).toMatchObject({ code: 'INVALID_MODEL' });
    expect(error.message).toContain('a.mar');
    expect(await readdir(join(work, 'deep'))).toEqual(['er']);
  });

  it.each(['../slipped.txt', '/tmp/slipped.txt', 'a/../../slipped.txt'])('tar entry %s', async (name) => {
    expect(await refusal(unpackBytes(tarBytes([{ name, data: 'x' }])))).toMatchObject({ code: 'INVALID_MODEL' });
    expect(await readdir(join(work, 'deep', 'er'))).toEqual(['into']);
  });

  it.each(['/etc/passwd', '../../x', 'nowhere'])('a link to %s', async (target) => {
    const error = await refusal(unpackZip([{ name: 'link', data: target, mode: 0o120777 }]));
    expect(error).toMatchObject({ code: 'INVALID_MODEL' });
    expect(error.message).toContain(target);
  });

  it('a link that climbs through another link', async () => {
    await writeFile(join(work, 'deep', 'er', 'secret'), 's');
    const entries = [
      { name: 'here', data: '.', mode: 0o120777 },
      { name: 'climb', data: 'here/../secret', mode: 0o120777 },
      { name: 'secret', data: 'decoy' },
    ];
    expect(await refusal(unpackZip(entries))).toMatchObject({ code: 'INVALID_MODEL' });
  });

  it('a file written through a link', async () => {
    const entries = [
      { name: 'out', data: '/tmp', mode: 0o120777 },
      { name: 'out/slipped.txt', data: 'x' },
    ];
    expect(await refusal(unpackZip(entries))).toMatchObject({ code: 'INVALID_MODEL' });
  });

  it('a link of a tar to outside, and a device', async () => {
    expect(await refusal(unpackBytes(tarBytes([{ name: 'l', type: '2', link: '/etc/passwd' }])))).toMatchObject({
      code: 'INVALID_MODEL',
    });
    expect((await refusal(unpackBytes(tarBytes([{ name: 'd', type: '3' }])))).message).toContain('CharacterDevice');
  });
});

describe('broken archives say what is wrong', () => {
  it('entries of one name', async () => {
    const error = await refusal(
      unpackZip([
        { name: 'a.txt', data: '1' },
        { name: './a.txt', data: '2' },
      ]),
    );
    expect(error.message).toContain('two entries named "a.txt"');
  });

  it('encrypted, and an unknown compression', async () => {
    expect((await refusal(unpackZip([{ name: 'a', data: '1', encrypted: true }]))).message).toContain('encrypted');
    expect((await refusal(unpackZip([{ name: 'a', data: '1', method: 12 }]))).message).toContain('compression method 12');
  });

  it('no zip, empty, cut short', async () => {
    expect((await refusal(unpackBytes(Buffer.from('this is a text file\n')))).message).toContain('neither a zip');
    expect((await refusal(unpackBytes(Buffer.alloc(0)))).message).toContain('empty');
    const whole = zipBytes([{ name: 'a.txt', data: 'x'.repeat(2000), deflate: false }]);
    expect(await refusal(unpackBytes(whole.subarray(0, 500)))).toMatchObject({ code: 'INVALID_MODEL' });
    const tar = tarBytes([{ name: 'a', data: 'x'.repeat(2000) }]);
    expect(await refusal(unpackBytes(tar.subarray(0, tar.length - 20)))).toMatchObject({ code: 'INVALID_MODEL' });
  });

  it('a name that is both file and folder', async () => {
    const error = await refusal(
      unpackZip([
        { name: 'a', data: '1' },
        { name: 'a/b', data: '2' },
      ]),
    );
    expect(error.message).toContain('both as a file and as a folder');
  });
});

describe('limits count what is inflated, not what headers claim', () => {
  const zeros = Buffer.alloc(8 << 20);

  it('size', async () => {
    const error = await refusal(unpackZip([{ name: 'z', data: zeros }], { maxArchiveSize: 1 << 20, maxArchiveRatio: 1e6 }));
    expect(error).toMatchObject({ code: 'INVALID_MODEL', reason: 'input-too-large' });
    expect(error.message).toMatch(/1048576 bytes.*max_archive_size/);
  });

  it('size over many entries', async () => {
    const entries = ['a', 'b', 'c'].map((name) => ({ name, data: Buffer.alloc(600_000) }));
    const error = await refusal(unpackZip(entries, { maxArchiveSize: 1 << 20, maxArchiveRatio: 1e6 }));
    expect(error.message).toContain('max_archive_size');
  });

  it('ratio, of zip and tar', async () => {
    expect((await refusal(unpackZip([{ name: 'z', data: zeros }]))).message).toContain('max_archive_ratio');
    expect((await refusal(unpackBytes(gzipSync(zeros)))).message).toContain('max_archive_ratio');
  });

  it('a size that the header understates', async () => {
    expect(await refusal(unpackZip([{ name: 'z', data: zeros, claimedSize: 10 }]))).toMatchObject({ code: 'INVALID_MODEL' });
  });

  it('small text may compress as well as it likes', async () => {
    expect(await unpackZip([{ name: 'z', data: 'a'.repeat(500_000) }], { maxArchiveSize: 1 << 20, maxArchiveRatio: 2 })).toEqual([
      'z',
    ]);
  });
});

it('a full disk is told as such', () => {
  const error = describeFailure(Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' }), 'a.mar', '/tmp/x');
  expect(error).toMatchObject({ code: 'INTERNAL', reason: 'disk-full' });
  expect(error.message).toContain('temp_directory');
});
