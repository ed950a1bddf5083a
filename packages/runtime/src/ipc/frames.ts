/**
 * Frames between the front and a worker: `u32 length of what follows | u32 length of meta | meta (JSON) | blobs`.
 * The meta says how long each blob is; tensors and bodies travel as blobs only.
 */
const HEADER = 8;
/** Blobs up to this size are copied into the header's buffer: one write beats one copy. */
const COPY_BELOW = 16 * 1024;

/** The pieces of one frame, ready to be written in order. */
export function encodeFrame(meta: unknown, blobs: readonly Uint8Array[] = []): Uint8Array[] {
  const text = JSON.stringify(meta);
  const metaLength = Buffer.byteLength(text);
  let blobBytes = 0;
  for (const blob of blobs) blobBytes += blob.byteLength;
  if (4 + metaLength + blobBytes > 0xffff_ffff) throw new RangeError('a frame cannot exceed 4 GiB');
  if (blobBytes <= COPY_BELOW) {
    const frame = Buffer.allocUnsafe(HEADER + metaLength + blobBytes);
    frame.writeUInt32LE(4 + metaLength + blobBytes, 0);
    frame.writeUInt32LE(metaLength, 4);
    frame.write(text, HEADER);
    let at = HEADER + metaLength;
    for (const blob of blobs) {
      frame.set(blob, at);
      at += blob.byteLength;
    }
    return [frame];
  }
  const head = Buffer.allocUnsafe(HEADER + metaLength);
  head.writeUInt32LE(4 + metaLength + blobBytes, 0);
  head.writeUInt32LE(metaLength, 4);
  head.write(text, HEADER);
  return [head, ...blobs.filter((blob) => blob.byteLength > 0)];
}

/** Bytes that are no frame. */
export class BrokenFrameError extends Error {
  override readonly name = 'BrokenFrameError';

  constructor(what: string) {
    super(`not a frame: ${what}`);
  }
}

export interface Frame {
  readonly meta: unknown;
  /** Everything after the meta, in one piece. */
  readonly blob: Buffer;
}

/** Cuts a byte stream into frames. A frame that lies in one chunk is not copied. */
export class FrameReader {
  readonly #onFrame: (frame: Frame) => void;
  #chunks: Buffer[] = [];
  #buffered = 0;
  #needed = 4;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    while (this.#buffered >= this.#needed) {
      const data = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#buffered);
      let at = 0;
      this.#needed = 4;
      while (data.length - at >= 4) {
        const length = data.readUInt32LE(at);
        if (data.length - at < 4 + length) {
          this.#needed = 4 + length;
          break;
        }
        const metaLength = length < 4 ? 0 : data.readUInt32LE(at + 4);
        if (length < 4 || metaLength > length - 4) throw new BrokenFrameError('lengths that contradict each other');
        const meta = parseMeta(data.toString('utf8', at + HEADER, at + HEADER + metaLength));
        const blob = data.subarray(at + HEADER + metaLength, at + 4 + length);
        at += 4 + length;
        this.#onFrame({ meta, blob });
      }
      const rest = data.subarray(at);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#buffered = rest.length;
    }
  }
}

function parseMeta(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BrokenFrameError('its meta is not JSON');
  }
}
