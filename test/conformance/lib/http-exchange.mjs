// One request over its own socket and whatever came back. A plain socket, since the cases need bytes that no client library sends.
import { connect } from 'node:net';

/**
 * @typedef {object} Answer
 * @property {string} [error] why there is no complete answer
 * @property {number} [status]
 * @property {Record<string, string[]>} [headers] by lower-case name
 * @property {Buffer} [body]
 */

/** @param {Buffer} body @returns {{ body: Buffer, complete: boolean }} */
function readChunks(body) {
  const pieces = [];
  let rest = body;
  for (;;) {
    const end = rest.indexOf('\r\n');
    if (end < 0) return { body: Buffer.concat(pieces), complete: false };
    const size = Number.parseInt(rest.subarray(0, end).toString('latin1'), 16);
    if (size === 0) return { body: Buffer.concat(pieces), complete: true };
    if (rest.length < end + size + 4) return { body: Buffer.concat(pieces), complete: false };
    pieces.push(rest.subarray(end + 2, end + 2 + size));
    rest = rest.subarray(end + size + 4);
  }
}

/**
 * @param {Buffer} bytes everything received
 * @param {string | undefined} method
 * @param {boolean} closed nothing more will come
 * @returns {Answer | undefined} undefined while more is needed
 */
export function parseAnswer(bytes, method, closed) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return closed ? { error: 'closed without an answer' } : undefined;
  const [statusLine = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  const rest = bytes.subarray(end + 4);
  if (status === 100) return rest.length > 0 || closed ? parseAnswer(rest, method, closed) : undefined;
  /** @type {Record<string, string[]>} */
  const headers = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    (headers[line.slice(0, colon).toLowerCase()] ??= []).push(line.slice(colon + 1).trim());
  }
  if (method === 'HEAD' || status === 204 || status === 304) return { status, headers, body: Buffer.alloc(0) };
  const length = headers['content-length']?.[0];
  if (length !== undefined) {
    if (rest.length >= Number(length)) return { status, headers, body: rest.subarray(0, Number(length)) };
    return closed ? { status, headers, body: rest, error: 'short body' } : undefined;
  }
  if ((headers['transfer-encoding'] ?? []).join(',').toLowerCase().includes('chunked')) {
    const { body, complete } = readChunks(rest);
    if (complete) return { status, headers, body };
    return closed ? { status, headers, body, error: 'short body' } : undefined;
  }
  return closed ? { status, headers, body: rest } : undefined;
}

/**
 * @param {string} address host:port
 * @param {Buffer} bytes
 * @param {string | undefined} method of the request
 * @param {number} timeoutMs
 * @returns {Promise<Answer>} never rejects
 */
export function exchange(address, bytes, method, timeoutMs) {
  return new Promise((resolve) => {
    const at = address.lastIndexOf(':');
    const socket = connect(Number(address.slice(at + 1)), address.slice(0, at));
    /** @type {Buffer[]} */
    const received = [];
    /** @param {Answer} answer */
    const finish = (answer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => finish({ error: `no complete answer within ${timeoutMs} ms` }), timeoutMs);
    socket.on('data', (data) => {
      received.push(data);
      const answer = parseAnswer(Buffer.concat(received), method, false);
      if (answer) finish(answer);
    });
    socket.on('close', () => finish(parseAnswer(Buffer.concat(received), method, true) ?? { error: 'closed' }));
    socket.on('error', (error) => {
      const answer = received.length > 0 ? parseAnswer(Buffer.concat(received), method, true) : undefined;
      finish(answer && !answer.error ? answer : { error: /** @type {NodeJS.ErrnoException} */ (error).code ?? String(error) });
    });
    socket.write(bytes);
  });
}
