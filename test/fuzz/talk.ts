import { connect } from 'node:net';
import { type HttpAnswer, readAnswers } from './http-answers.js';
import { answerLimit, Violation } from './target.js';

/** Everything the server sends until it ends the connection. `reset`: it did so without a FIN. */
interface Talk {
  readonly bytes: Buffer;
  readonly reset: boolean;
}

/**
 * Sends bytes on a connection of its own and waits until the server ends it.
 * @param finished tells from what came whether to say that no more will be sent; it is also said after a moment of silence
 * @throws {Violation} when the connection is still open at the limit
 */
export async function talk(
  address: string,
  bytes: Buffer,
  finished: (received: Buffer) => boolean,
  /** Milliseconds of silence after which the client leaves; undefined: it waits for the server, up to the limit. */
  leavesAfter?: number,
): Promise<Talk> {
  const url = new URL(address.includes('://') ? address : `tcp://${address}`);
  return await new Promise<Talk>((resolve, reject) => {
    const socket = connect({ host: url.hostname, port: Number(url.port), allowHalfOpen: true });
    const chunks: Buffer[] = [];
    let reset = false;
    const limit = setTimeout(() => {
      socket.destroy();
      reject(
        new Violation(`hang: the connection was open after ${answerLimit} ms; it had sent ${Buffer.concat(chunks).length} bytes`),
      );
    }, answerLimit);
    const silence = setTimeout(() => (leavesAfter === undefined ? socket.end() : socket.destroy()), leavesAfter ?? 150);
    let sent = false;
    const look = () => sent && finished(Buffer.concat(chunks)) && socket.end();
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      silence.refresh();
      look();
    });
    socket.on('end', () => socket.end());
    socket.on('error', () => (reset = true));
    socket.on('close', () => {
      clearTimeout(limit);
      clearTimeout(silence);
      resolve({ bytes: Buffer.concat(chunks), reset });
    });
    // Where the pieces are cut depends on the bytes alone.
    const cut = bytes.length % 3 === 0 ? Math.floor(bytes.length / 2) : bytes.length;
    socket.write(bytes.subarray(0, cut));
    const rest = () => {
      if (cut < bytes.length) socket.write(bytes.subarray(cut));
      sent = true;
      look();
    };
    if (cut < bytes.length) setImmediate(rest);
    else rest();
  });
}

export interface HttpRules {
  /** At least one answer must come. */
  readonly mustAnswer: boolean;
  /** Nothing is awaited before saying that no more will be sent. */
  readonly halfClose?: boolean;
}

/** Plays bytes on an HTTP listener. @throws {Violation} for a 5xx, for what is no HTTP, for a hang */
export async function talkHttp(url: string, bytes: Buffer, { mustAnswer, halfClose = false }: HttpRules): Promise<HttpAnswer[]> {
  const headAsked = bytes.includes('HEAD');
  const { bytes: received, reset } = await talk(
    url,
    bytes,
    (soFar) => halfClose || readAnswers(soFar, headAsked, false).length > 0,
  );
  // What a reset cuts off was sent by a client that went on sending after an answer that closes.
  const answers = readAnswers(received, headAsked, !reset);
  const failed = answers.find(({ status }) => status >= 500);
  if (failed !== undefined)
    throw new Violation(`${failed.status} for a client's mistake: ${failed.body.toString('latin1', 0, 300)}`);
  if (answers.length === 0 && mustAnswer && !reset) throw new Violation('the connection was ended without an answer');
  return answers;
}

/** The first status, for the tally. */
export const outcome = (answers: readonly HttpAnswer[]): string => String(answers[0]?.status ?? 'none');
