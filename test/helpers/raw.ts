import { request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import { connect } from 'node:net';

/** An answer as it came over the wire: nothing decoded. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface RawRequest {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Several pieces go out chunked, unless `headers` has a content-length. */
  readonly body?: Uint8Array | string | readonly Uint8Array[];
}

/** A request that adds no header of its own besides Host and the body's length, and decodes nothing of the answer. */
export async function exchange(url: string, { method = 'POST', headers, body }: RawRequest = {}): Promise<RawAnswer> {
  return await new Promise((resolve, reject) => {
    const call = httpRequest(url, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    call.on('error', reject);
    if (Array.isArray(body)) {
      for (const piece of body as readonly Uint8Array[]) call.write(piece);
      call.end();
    } else call.end(body as Uint8Array | string | undefined);
  });
}

/** Everything the server sends on a connection of its own until it closes it. The head must ask for that. */
export async function socketTalk(url: string, pieces: ReadonlyArray<string | Uint8Array>): Promise<string> {
  const { hostname, port } = new URL(url);
  return await new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    const chunks: Buffer[] = [];
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('end', () => resolve(Buffer.concat(chunks).toString('latin1')));
    for (const piece of pieces) socket.write(piece);
  });
}
