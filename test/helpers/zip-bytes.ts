import { crc32, deflateRawSync } from 'node:zlib';

/** One entry of a zip that no library would write. */
export interface ZipEntry {
  /** Written as it is, slashes, dots and all. */
  readonly name: string;
  readonly data?: string | Uint8Array;
  /** Default true. */
  readonly deflate?: boolean;
  /** Unix mode with the type bits, such as `0o120777` for a link. */
  readonly mode?: number;
  /** Sizes follow the data instead of standing before it. */
  readonly descriptor?: boolean;
  readonly zip64?: boolean;
  readonly encrypted?: boolean;
  /** Compression method to claim. */
  readonly method?: number;
  /** Uncompressed size to claim. */
  readonly claimedSize?: number;
}

const noSize = 0xffffffff;

/** The bytes of a zip. */
export function zipBytes(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = encode(entry, offset);
    parts.push(local);
    directory.push(central);
    offset += local.length;
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, index, end]);
}

function encode(entry: ZipEntry, offset: number): { local: Buffer; central: Buffer } {
  const data = Buffer.from(entry.data ?? '');
  const deflate = entry.deflate ?? true;
  const stored = deflate ? deflateRawSync(data) : data;
  const name = Buffer.from(entry.name);
  const size = entry.claimedSize ?? data.length;
  const flags = 0x800 | (entry.descriptor ? 8 : 0) | (entry.encrypted ? 1 : 0);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(entry.zip64 ? 45 : 20, 0);
  common.writeUInt16LE(flags, 2);
  common.writeUInt16LE(entry.method ?? (deflate ? 8 : 0), 4);
  common.writeUInt32LE(crc32(data), 10);
  common.writeUInt32LE(entry.zip64 ? noSize : stored.length, 14);
  common.writeUInt32LE(entry.zip64 ? noSize : size, 18);
  common.writeUInt16LE(name.length, 22);
  const localCommon = Buffer.from(common);
  if (entry.descriptor) localCommon.fill(0, 10, 22);
  const extra = entry.zip64 ? zip64Extra(size, stored.length) : Buffer.alloc(0);
  common.writeUInt16LE(extra.length, 24);
  localCommon.writeUInt16LE(extra.length, 24);
  const head = Buffer.from([0x50, 0x4b, 3, 4]);
  const trailer = entry.descriptor ? descriptorOf(data, stored.length) : Buffer.alloc(0);
  const tail = Buffer.alloc(14);
  tail.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 6);
  tail.writeUInt32LE(offset, 10);
  const madeByUnix = Buffer.from([20, 3]);
  return {
    local: Buffer.concat([head, localCommon, name, extra, stored, trailer]),
    central: Buffer.concat([Buffer.from([0x50, 0x4b, 1, 2]), madeByUnix, common, tail, name, extra]),
  };
}

function zip64Extra(size: number, compressed: number): Buffer {
  const extra = Buffer.alloc(20);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(16, 2);
  extra.writeBigUInt64LE(BigInt(size), 4);
  extra.writeBigUInt64LE(BigInt(compressed), 12);
  return extra;
}

function descriptorOf(data: Buffer, compressed: number): Buffer {
  const descriptor = Buffer.alloc(16);
  descriptor.writeUInt32LE(0x08074b50, 0);
  descriptor.writeUInt32LE(crc32(data), 4);
  descriptor.writeUInt32LE(compressed, 8);
  descriptor.writeUInt32LE(data.length, 12);
  return descriptor;
}
