import { ServeError, toServeError } from '../domain/errors.js';
import type { Envelope } from '../domain/envelope.js';
import { type InferenceService, type PredictRequest, type RequestKind, monotonicNow } from '../domain/request.js';
import { readBody } from './body.js';
import { deadlineOf } from './deadline.js';
import type { Exchange } from './exchange.js';
import { sendReply } from './send-reply.js';

export interface Target {
  readonly model: string;
  readonly version: string | undefined;
  readonly kind: RequestKind;
  readonly urlPath: string;
  readonly query: ReadonlyArray<readonly [string, string]>;
  readonly queryIsInput: boolean;
  readonly envelope?: Envelope | undefined;
}

/** Reads the body once; a second call gets the same bytes. */
export async function receive(exchange: Exchange): Promise<Buffer> {
  const { maxRequestSize, bodies } = exchange.settings;
  const body = await readBody(exchange.request, maxRequestSize, bodies, (bytes) => exchange.hold(bytes));
  exchange.receivedAt = monotonicNow();
  exchange.requestBytes = body.length;
  return body;
}

export async function predict(exchange: Exchange, inference: InferenceService, target: Target, received?: Buffer): Promise<void> {
  const { model, version, kind, urlPath, query, queryIsInput, envelope } = target;
  let body: Buffer;
  let deadline: number | undefined;
  try {
    deadline = deadlineOf(exchange);
    body = received ?? (await receive(exchange));
  } catch (error) {
    const refusal = toServeError(error);
    inference.refused({ id: exchange.id, modelName: model, modelVersion: version }, refusal);
    throw refusal;
  }
  if (model === '') throw new ServeError('MODEL_NOT_FOUND', 'The path names no model.');
  const request: PredictRequest = {
    id: exchange.id,
    modelName: model,
    modelVersion: version,
    kind,
    rawHeaders: exchange.request.rawHeaders,
    urlPath,
    query,
    queryIsInput,
    envelope,
    body,
    receivedAt: exchange.receivedAt,
    deadline,
    client: exchange,
  };
  await sendReply(exchange, await inference.predict(request));
}
