import { Agent, request } from 'node:http';
import { GrpcClient, input } from '../helpers/grpc.js';
import type { Target } from './models.js';

export type Protocol = 'http' | 'grpc';

/** What came back for one request. */
export interface Reply {
  readonly ok: boolean;
  /** HTTP status, gRPC code, or what the connection said. */
  readonly status: string;
  readonly body: string;
  /** `x-request-id` as it came back. */
  readonly id: string | undefined;
}

/** A client that keeps its connections, over both protocols. */
export class Asker {
  readonly #agent: Agent;
  readonly #grpc: GrpcClient | undefined;
  readonly #base: string;

  /** @param grpc its address; undefined: HTTP alone */
  constructor(base: string, grpc: string | undefined, { keepAlive = true, timeoutMs = 60_000 } = {}) {
    this.#agent = new Agent({ keepAlive, maxSockets: 256, timeout: timeoutMs });
    this.#base = base;
    this.#grpc = grpc === undefined ? undefined : new GrpcClient(grpc);
  }

  close(): void {
    this.#agent.destroy();
    this.#grpc?.close();
  }

  async ask(protocol: Protocol, target: Target, at: number, id: string): Promise<Reply> {
    const body = target.inputs[at]!;
    return protocol === 'grpc' && this.#grpc !== undefined
      ? await this.#overGrpc(this.#grpc, target.model, body, id)
      : await this.post(`/predictions/${target.model}`, body, target.contentType, id);
  }

  async post(path: string, body: Buffer, contentType: string, id: string): Promise<Reply> {
    return await new Promise((resolve) => {
      const failed = (error: NodeJS.ErrnoException) =>
        resolve({ ok: false, status: error.code ?? error.message, body: error.message, id: undefined });
      const headers = { 'content-type': contentType, 'content-length': body.length, 'x-request-id': id };
      const call = request(this.#base + path, { method: 'POST', agent: this.#agent, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', failed);
        response.on('end', () => {
          const status = response.statusCode ?? 0;
          const echoed = response.headers['x-request-id'];
          resolve({
            ok: status === 200,
            status: String(status),
            body: Buffer.concat(chunks).toString('utf8'),
            id: typeof echoed === 'string' ? echoed : undefined,
          });
        });
      });
      call.on('timeout', () => call.destroy(Object.assign(new Error('no answer in time'), { code: 'HANG' })));
      call.on('error', failed);
      call.end(body);
    });
  }

  async #overGrpc(client: GrpcClient, model: string, body: Buffer, id: string): Promise<Reply> {
    const message = { model_name: model, input: input({ data: body }) };
    const metadata = { 'x-request-id': id };
    const { code, details, messages, trailers } = await client.call('inference', 'Predictions', message, {
      metadata,
      deadlineMs: 60_000,
    });
    const prediction = messages[0] as { readonly prediction?: Buffer } | undefined;
    const body_ = code === 0 && messages.length === 1 ? (prediction?.prediction ?? Buffer.alloc(0)).toString('utf8') : details;
    const [echoed] = trailers.get('x-request-id');
    return { ok: code === 0, status: `grpc ${code}`, body: body_, id: echoed?.toString() };
  }
}
