export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'avif';
/** Formats that are told apart only to be refused by name. */
export type OtherFormat = 'heic' | 'svg' | 'pdf' | 'bmp' | 'jxl' | 'jp2';

/** Judges a file by its first bytes, never by its name or type; undefined when it is nothing we know. */
export function sniffImage(bytes: Uint8Array): ImageFormat | OtherFormat | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 512)).toString('latin1');
  if (head.startsWith('\xff\xd8\xff')) return 'jpeg';
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'png';
  if (head.startsWith('RIFF') && head.slice(8, 12) === 'WEBP') return 'webp';
  if (/^GIF8[79]a/.test(head)) return 'gif';
  if (/^(?:II[*+]\0|MM\0[*+])/.test(head)) return 'tiff';
  if (head.slice(4, 8) === 'ftyp') return /^.{8}(?:.{4})*?avi[fs]/s.test(head.slice(0, 64)) ? 'avif' : 'heic';
  if (head.startsWith('%PDF')) return 'pdf';
  if (head.startsWith('BM')) return 'bmp';
  if (head.startsWith('\xff\x0a') || head.startsWith('\0\0\0\x0cJXL ')) return 'jxl';
  if (head.startsWith('\0\0\0\x0cjP  ') || head.startsWith('\xff\x4f\xff\x51')) return 'jp2';
  if (/^\s*(?:\xef\xbb\xbf)?(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*(?:<!DOCTYPE svg|<svg)/is.test(head)) return 'svg';
  return undefined;
}
