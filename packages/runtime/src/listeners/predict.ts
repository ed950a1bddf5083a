import { ServeError } from '../domain/errors.js';
import { type InferenceService, type PredictRequest, type RequestKind, monotonicNow } from '../domain/request.js';
import { readBody } from './body.js';
import type { Exchange } from './exchange.js';
import { sendReply } from './send-reply.js';

export interface Target {
  readonly model: string;
  readonly version: string | undefined;
  readonly kind: RequestKind;
  readonly urlPath: string;
  readonly query: ReadonlyArray<readonly [string, string]>;
  readonly queryIsInput: boolean;
}

/** A request whose signal is only made when somebody asks for it. */
class HttpPredictRequest implements PredictRequest {
  readonly id: string;
  readonly receivedAt: number;
  readonly rawHeaders: readonly string[];
  #abort: AbortController | undefined;

  constructor(
    private readonly exchange: Exchange,
    readonly modelName: string,
    readonly modelVersion: string | undefined,
    readonly kind: RequestKind,
    readonly urlPath: string,
    readonly query: ReadonlyArray<readonly [string, string]>,
    readonly queryIsInput: boolean,
    readonly body: Buffer,
  ) {
    this.id = exchange.id;
    this.receivedAt = exchange.receivedAt;
    this.rawHeaders = exchange.request.rawHeaders;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = (this.#abort = new AbortController());
      if (this.exchange.gone) abort.abort();
      else this.exchange.onGone = () => abort.abort();
    }
    return this.#abort.signal;
  }
}

/** Reads the body once; a second call gets the same bytes. */
export async function receive(exchange: Exchange): Promise<Buffer> {
  const body = await readBody(exchange.request, exchange.settings.maxRequestSize);
  exchange.receivedAt = monotonicNow();
  exchange.requestBytes = body.length;
  return body;
}

export async function predict(exchange: Exchange, inference: InferenceService, target: Target, received?: Buffer): Promise<void> {
  const body = received ?? (await receive(exchange));
  const { model, version, kind, urlPath, query, queryIsInput } = target;
  if (model === '') throw new ServeError('MODEL_NOT_FOUND', 'The path names no model.');
  const request = new HttpPredictRequest(exchange, model, version, kind, urlPath, query, queryIsInput, body);
  await sendReply(exchange, await inference.predict(request));
}
