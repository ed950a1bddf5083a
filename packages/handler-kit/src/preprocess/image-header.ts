/** What the header of a file says without anything being decoded. */
export interface ImageHeader {
  readonly width: number;
  readonly height: number;
  /** EXIF orientation, 1 to 8. */
  readonly orientation: number;
  /** A whole baseline or progressive JPEG in YCbCr whose colours are sRGB: what every decoder reads alike. */
  readonly plain: boolean;
}

/** Reads the header of a JPEG; undefined when anything about it is unusual, which is left to a decoder to judge. */
export function jpegHeader(bytes: Uint8Array): ImageHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let frame: { width: number; height: number; ycc: boolean } | undefined;
  let orientation: number | undefined;
  let profiled = false;
  let quantised = false;
  let scanned = false;
  let at = 2;
  while (at + 4 <= view.length) {
    const marker = view[at + 1]!;
    if (marker === 0xd9) break;
    const length = view.readUInt16BE(at + 2);
    if (view[at] !== 0xff || length < 2 || at + 2 + length > view.length) return undefined;
    const segment = view.subarray(at + 4, at + 2 + length);
    if (marker === 0xda) {
      scanned = true;
      at = endOfScan(view, at + 2 + length);
      continue;
    }
    if (marker === 0xc0 || marker === 0xc2) {
      if (frame !== undefined) return undefined;
      frame = frameOf(segment);
      if (frame === undefined) return undefined;
    } else if (marker === 0xc4) {
      if (!areHuffmanTables(segment)) return undefined;
    } else if (marker === 0xdb) quantised = true;
    else if (marker === 0xe1) orientation ??= exifOrientation(segment);
    else if (marker === 0xe2) profiled ||= segment.toString('latin1', 0, 12) === 'ICC_PROFILE\0' && !isSrgb(segment);
    else if (marker === 0xee) {
      // Adobe: anything but 1 says that the channels are not YCbCr.
      if (segment.toString('latin1', 0, 5) === 'Adobe' && segment[11] !== 1) return undefined;
    } else if (marker !== 0xdd && marker !== 0xfe && (marker < 0xe0 || marker > 0xef)) return undefined;
    at += 2 + length;
  }
  if (frame === undefined || !scanned) return undefined;
  const { width, height, ycc } = frame;
  // Of a file that was cut no scan ends just before the two bytes of the end.
  const whole = at === view.length - 2 && view[at] === 0xff && view[at + 1] === 0xd9;
  return { width, height, orientation: orientation ?? 1, plain: ycc && whole && !profiled && quantised };
}

/** Where the next marker is: within the data of a scan 0xff is followed by zero or the number of a restart. */
function endOfScan(view: Buffer, start: number): number {
  for (let at = view.indexOf(0xff, start); at !== -1; at = view.indexOf(0xff, at + 1)) {
    const next = view[at + 1];
    if (next === undefined) break;
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at;
  }
  return view.length;
}

function frameOf(segment: Buffer): { width: number; height: number; ycc: boolean } | undefined {
  if (segment.length < 9 || segment[0] !== 8) return undefined;
  const [height, width, components] = [segment.readUInt16BE(1), segment.readUInt16BE(3), segment[5]];
  if (height === 0 || width === 0 || segment.length !== 6 + components! * 3) return undefined;
  const ids = [segment[6], segment[9], segment[12]];
  const sampling = [segment[7]!, segment[10]!, segment[13]!];
  // Components called R, G and B, and rare sampling, are left to sharp.
  const ycc =
    components === 3 &&
    ids.every((id, at) => id === at + 1) &&
    [0x11, 0x21, 0x22].includes(sampling[0]!) &&
    sampling[1] === 0x11 &&
    sampling[2] === 0x11;
  return { width, height, ycc };
}

/** Whether the codes of all tables fit into their lengths. */
function areHuffmanTables(segment: Buffer): boolean {
  let at = 0;
  while (at + 17 <= segment.length) {
    let [codes, room] = [0, 1];
    for (let bits = 1; bits <= 16; bits++) {
      const count = segment[at + bits]!;
      room = room * 2 - count;
      codes += count;
      if (room < 0) return false;
    }
    if (codes > 256) return false;
    at += 17 + codes;
  }
  return at === segment.length;
}

/** Profiles that change nothing, by the name that most of them bear. */
function isSrgb(segment: Buffer): boolean {
  return segment.includes('sRGB IEC61966-2.1', 0, 'latin1');
}

function exifOrientation(segment: Buffer): number | undefined {
  if (segment.toString('latin1', 0, 6) !== 'Exif\0\0' || segment.length < 14) return undefined;
  const tiff = segment.subarray(6);
  const little = tiff[0] === 0x49;
  const short = (at: number): number => (at + 2 > tiff.length ? 0 : little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));

  const directory = little ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  for (let entry = 0; entry < short(directory); entry++) {
    const at = directory + 2 + entry * 12;
    if (short(at) !== 0x0112) continue;
    const value = short(at + 8);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

/** Reads the header of a PNG; undefined when it is unusual. */
export function pngHeader(bytes: Uint8Array): ImageHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length < 33 || view.toString('latin1', 12, 16) !== 'IHDR') return undefined;
  const [width, height] = [view.readUInt32BE(16), view.readUInt32BE(20)];
  for (let at = 8; at + 8 <= view.length; at += 12 + view.readUInt32BE(at)) {
    const type = view.toString('latin1', at + 4, at + 8);
    if (type === 'IDAT') return width > 0 && height > 0 ? { width, height, orientation: 1, plain: false } : undefined;
    // EXIF data may turn the picture.
    if (type === 'eXIf' || type === 'zTXt' || type === 'iTXt' || type === 'tEXt') return undefined;
  }
  return undefined;
}
