import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { type FastifyInstance, fastify } from 'fastify';
import { errorBody } from '../protocol/torchserve/error-body.js';
import { requestId } from './request-id.js';
import { answerPlainHttp } from './plain-http.js';
import type { TlsMaterial } from './tls.js';
import type { TlsIdentity } from './tls-identity.js';

/** Limits of the HTTP layer, in milliseconds and bytes. */
export interface HttpLimits {
  readonly headersTimeout: number;
  /** A whole request, body included. */
  readonly requestTimeout: number;
  readonly maxHeaderSize: number;
  /** How often the two timeouts are looked at. */
  readonly checkInterval: number;
}

export const defaultLimits: HttpLimits = {
  headersTimeout: 60_000,
  requestTimeout: 300_000,
  maxHeaderSize: 32 * 1024,
  checkInterval: 5_000,
};

export type Dispatch = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * A fastify server that hands every exchange to one function. Paths, bodies and errors keep TorchServe's meaning,
 * which knows no fixed methods per path and takes any body with any method, so fastify's own parsing stays out of the way.
 */
export function createHttpServer(options: {
  dispatch: Dispatch;
  keepAliveTimeout: number;
  maxRequestSize: number;
  limits: HttpLimits;
  tls?: TlsIdentity | undefined;
}): FastifyInstance {
  const { dispatch, keepAliveTimeout, maxRequestSize, limits, tls } = options;
  const node = {
    headersTimeout: Math.min(limits.headersTimeout, limits.requestTimeout),
    maxHeaderSize: limits.maxHeaderSize,
    connectionsCheckingInterval: limits.checkInterval,
    // A missing Host header is answered, as TorchServe does.
    requireHostHeader: false,
  };
  const server = fastify({
    logger: false,
    keepAliveTimeout,
    requestTimeout: limits.requestTimeout,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    clientErrorHandler: answerClientError(limits),
    frameworkErrors(_error, request, reply) {
      void reply.hijack();
      dispatch(request.raw, reply.raw);
    },
    ...(tls === undefined
      ? { http: node }
      : { https: { ...node, ...tlsOptions(tls.material), handshakeTimeout: limits.headersTimeout } }),
  }) as FastifyInstance;
  server.addHook('onRequest', (request, reply, _done) => {
    void reply.hijack();
    dispatch(request.raw, reply.raw);
  });
  server.all('/*', () => undefined);
  const http: Server = server.server;
  // Fastify takes 0, which means for ever, for not given.
  http.keepAliveTimeout = keepAliveTimeout;
  http.headersTimeout = Math.min(limits.headersTimeout, limits.requestTimeout);
  if (tls !== undefined) {
    const secure = server.server as unknown as HttpsServer;
    const endEarly = answerPlainHttp(secure, limits.headersTimeout);
    const endWatch = tls.watch((material) => secure.setSecureContext(tlsOptions(material)));
    server.addHook('preClose', (done) => {
      endWatch();
      endEarly();
      done();
    });
  }
  http.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    // A body that will be refused is not asked for.
    if (Number(request.headers['content-length'] ?? 0) <= maxRequestSize) response.writeContinue();
    http.emit('request', request, response);
  });
  http.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const id = requestId(request.headers['x-request-id']);
    const message = 'The Expect header is not one that this server can meet; it knows 100-continue.';
    const body = errorBody(417, 'BadRequestException', message, 'bad-input', id);
    response.writeHead(417, [
      'content-type',
      'application/json',
      'x-request-id',
      id,
      'content-length',
      String(Buffer.byteLength(body)),
    ]);
    response.end(body);
  });
  return server;
}

/** TLS 1.2 and 1.3. */
function tlsOptions({ key, certificate }: TlsMaterial): SecureContextOptions {
  return { key, cert: certificate, minVersion: 'TLSv1.2' };
}

/** Milliseconds for a client to read why it was refused, while what it goes on sending is thrown away. */
const lingering = 1_000;

function answerClientError(limits: HttpLimits) {
  const refused = new WeakSet<Socket>();
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    // More of what is no HTTP. A socket closed with bytes that nobody has read is reset, and the answer may be lost with it.
    if (refused.has(socket) && error.code !== 'ECONNRESET') return;
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const [status, type, message] = describe(error.code, limits);
    const id = requestId(undefined);
    const body = errorBody(status, type, message, status === 408 ? 'response-timeout' : 'bad-input', id);
    const head =
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\ncontent-type: application/json\r\nx-request-id: ${id}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`;
    // An answer that is half out cannot be followed by another one.
    const current = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage;
    if (current?.headersSent) socket.destroy();
    else {
      refused.add(socket);
      socket.end(head + body);
      const timer = setTimeout(() => socket.destroy(), lingering);
      socket.once('close', () => clearTimeout(timer));
    }
  };
}

function describe(code: string | undefined, limits: HttpLimits): readonly [number, string, string] {
  switch (code ?? '') {
    case 'HPE_HEADER_OVERFLOW':
      return [
        431,
        'BadRequestException',
        `The request line and headers are larger than the limit of ${limits.maxHeaderSize} bytes.`,
      ];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return [413, 'PayloadTooLargeException', 'The chunk extensions of the request body are too large.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [
        408,
        'RequestTimeoutException',
        `The request was not complete within ${limits.headersTimeout / 1000} s for its headers and ${limits.requestTimeout / 1000} s in all.`,
      ];
    default:
      return [400, 'BadRequestException', `The request is not valid HTTP${code === undefined ? '' : ` (${code})`}.`];
  }
}
