import { request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import { connect, type Socket } from 'node:net';

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

/** A connection whose bytes the test writes and reads itself. */
export class RawConnection {
  readonly #socket: Socket;
  #text = '';
  /** How it ended: by the server's FIN, by a reset, or not yet. */
  end: 'open' | 'closed' | 'reset' = 'open';
  #changed: Array<() => void> = [];

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    this.#socket.on('data', (chunk: Buffer) => this.#change(() => (this.#text += chunk.toString('latin1'))));
    this.#socket.on('end', () => this.#change(() => (this.end = this.end === 'open' ? 'closed' : this.end)));
    this.#socket.on('error', () => this.#change(() => (this.end = 'reset')));
  }

  get text(): string {
    return this.#text;
  }

  send(text: string): this {
    this.#socket.write(text);
    return this;
  }

  /** A POST of JSON. */
  post(path: string, body: unknown, method = 'POST'): this {
    const text = JSON.stringify(body);
    const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n`;
    return this.send(`${head}${text}`);
  }

  get(path: string): this {
    return this.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  }

  /** Says that nothing more will come, and goes on reading. */
  halfClose(): this {
    this.#socket.end();
    return this;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Everything received, once it matches. @throws when the connection ends before */
  async until(pattern: RegExp): Promise<string> {
    for (;;) {
      if (pattern.test(this.#text)) return this.#text;
      if (this.end !== 'open') throw new Error(`the connection was ${this.end} before ${String(pattern)}:\n${this.#text}`);
      await new Promise<void>((resolve) => this.#changed.push(resolve));
    }
  }

  /** Everything received, once the server has ended the connection. */
  async ended(): Promise<string> {
    while (this.end === 'open') await new Promise<void>((resolve) => this.#changed.push(resolve));
    return this.#text;
  }

  #change(change: () => unknown): void {
    change();
    const waiting = this.#changed;
    this.#changed = [];
    for (const resolve of waiting) resolve();
  }
}
