import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { errorBody } from '../protocol/torchserve/error-body.js';
import { requestId } from './request-id.js';

/** First byte of every TLS connection. */
const handshakeRecord = 0x16;

/**
 * Looks at the first byte of each connection: who speaks HTTP to a TLS port gets an answer that can be read, and who says nothing
 * keeps neither a slot nor a shutdown waiting.
 * @param idleMs how long a connection may stay silent before its handshake
 * @returns ends the connections that have not come to an end with their handshake
 */
export function answerPlainHttp(server: HttpsServer, idleMs: number): () => void {
  const early = new Map<string, Socket>();
  const [secure, ...others] = server.listeners('connection') as Array<(socket: Socket) => void>;
  if (secure === undefined || others.length > 0) throw new TypeError('a TLS server has one listener for connections');
  server.removeAllListeners('connection');
  server.on('secureConnection', (socket) => early.delete(peerOf(socket)));
  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    early.set(peer, socket);
    socket.once('close', () => {
      if (early.get(peer) === socket) early.delete(peer);
    });
    const fail = () => socket.destroy();
    socket.setTimeout(idleMs, fail);
    socket.once('error', fail);
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.setTimeout(0);
      socket.off('timeout', fail);
      if (first[0] === handshakeRecord) {
        socket.off('error', fail);
        socket.unshift(first);
        secure.call(server, socket);
      } else answer(socket);
    });
  });
  return () => {
    for (const socket of early.values()) socket.destroy();
  };
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function answer(socket: Socket): void {
  const id = requestId(undefined);
  const message = 'This port speaks TLS; use https:// in the address.';
  const body = errorBody(403, 'BadRequestException', message, 'bad-input', id);
  socket.end(
    `HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nx-request-id: ${id}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    // What the client still sends is read away, or a reset could reach it before the answer.
    () => setTimeout(() => socket.destroy(), 1000).unref(),
  );
  socket.resume();
}
