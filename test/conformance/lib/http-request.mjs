// Turns a recorded request into the bytes that go over the wire.

/** @param {any} piece text, or `{ repeat_char, count }` */
const chunkBytes = (piece) => (typeof piece === 'string' ? Buffer.from(piece) : Buffer.alloc(piece.count, piece.repeat_char));

/** @param {Record<string, any>} holder has `body_b64` or `body` */
const plainBytes = (holder) =>
  holder.body_b64 === undefined ? Buffer.from(holder.body ?? '') : Buffer.from(holder.body_b64, 'base64');

/** @param {Record<string, any>} request */
function multipartBytes(request) {
  const type = Object.entries(request.headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  const boundary = /boundary=([^;]+)/.exec(String(type))?.[1];
  const pieces = [];
  for (const part of request.multipart) {
    let head = `--${boundary}\r\nContent-Disposition: form-data; name="${part.name}"`;
    if (part.filename !== undefined && part.filename !== null) head += `; filename="${part.filename}"`;
    head += '\r\n';
    if (part.content_type) head += `Content-Type: ${part.content_type}\r\n`;
    pieces.push(Buffer.from(`${head}\r\n`), plainBytes(part), Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

/** @param {Record<string, any>} request @param {(text: string) => string} fill */
function bodyBytes(request, fill) {
  if (request.body_b64 !== undefined) return plainBytes(request);
  if (request.body !== undefined) return Buffer.from(fill(request.body));
  if (request.body_repeat) return Buffer.alloc(request.body_repeat.count, request.body_repeat.char);
  if (request.multipart) return multipartBytes(request);
  return Buffer.alloc(0);
}

/**
 * @param {Record<string, any>} request
 * @param {string} address host:port, for the Host header
 * @param {(text: string) => string} fill replaces placeholders
 * @returns {Buffer}
 */
export function requestBytes(request, address, fill) {
  if (request.raw_b64) return Buffer.from(request.raw_b64, 'base64');
  const headers = Object.entries(/** @type {Record<string, any>} */ (request.headers ?? {}));
  const names = new Set(headers.map(([name]) => name.toLowerCase()));
  let head = `${request.method} ${fill(request.path)} ${request.http_version ?? 'HTTP/1.1'}\r\n`;
  if (!names.has('host')) head += `Host: ${address}\r\n`;
  for (const [name, values] of headers) for (const value of [values].flat()) head += `${name}: ${fill(String(value))}\r\n`;

  if (request.chunked_body) {
    const pieces = [Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`)];
    for (const piece of request.chunked_body.map(chunkBytes)) {
      pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
    }
    return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
  }

  const body = bodyBytes(request, fill);
  const bodyless = request.method === 'GET' || request.method === 'HEAD';
  if (!names.has('content-length') && (body.length > 0 || !bodyless)) head += `Content-Length: ${body.length}\r\n`;
  return Buffer.concat([Buffer.from(`${head}\r\n`), body]);
}
