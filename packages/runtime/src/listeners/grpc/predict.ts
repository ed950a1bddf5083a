import type { Metadata } from '@grpc/grpc-js';
import { ServeError } from '../../domain/errors.js';
import {
  type Client,
  type InferenceService,
  type PredictReply,
  type PredictRequest,
  type SequenceMark,
} from '../../domain/request.js';
import type { PredictionsRequest } from '../../protocol/torchserve/grpc-messages.js';
import { checkStatus } from '../reply-headers.js';
import type { GrpcCall } from './call.js';
import { headerMetadata, rawHeaders } from './metadata.js';

const nothing = Buffer.alloc(0);

/** The longest text of a failed answer that becomes the sentence of a status, characters. */
const longestBody = 2000;

/** One request of TorchServe's inference service as the core knows it. */
export function predictRequest(
  { model_name, model_version, input }: PredictionsRequest,
  call: GrpcCall,
  client: Client,
  sequence: { readonly mark: SequenceMark | undefined; readonly headers: readonly string[] },
): PredictRequest {
  if (model_name === '') throw new ServeError('MODEL_NOT_FOUND', 'The request names no model; set model_name.');
  const names = Object.keys(input);
  // The decoder gives an empty array, which is no bytes, for an entry of the map that has no value.
  const values = names.map((name) => (Buffer.isBuffer(input[name]) ? input[name] : nothing));
  const [only] = values;
  // The usual single input is not copied.
  const body = values.length === 1 && only !== undefined ? only : Buffer.concat(values);
  call.requestBytes += body.length;
  return {
    id: call.id,
    modelName: model_name,
    modelVersion: model_version === '' ? undefined : model_version,
    kind: 'predict',
    rawHeaders: [...rawHeaders(call.metadata), ...sequence.headers],
    urlPath: '',
    query: [],
    body,
    parts: names.map((name, index) => [name, values[index]?.length ?? 0] as const),
    ...(sequence.mark === undefined ? {} : { sequence: sequence.mark }),
    receivedAt: call.receivedAt,
    ...(call.deadline === undefined ? {} : { deadline: call.deadline }),
    client,
  };
}

export async function predict(inference: InferenceService, request: PredictRequest, call: GrpcCall): Promise<PredictReply> {
  const reply = await inference.predict(request);
  call.stages = reply.stages;
  return reply;
}

/**
 * The whole answer, that of a streaming handler joined.
 * @throws {ServeError} RESPONSE_TOO_LARGE over the limit, and what the answer itself is when its handler gave it a status that says so
 */
export async function wholeBody(reply: PredictReply, call: GrpcCall, limit: number): Promise<Buffer> {
  const body = Buffer.isBuffer(reply.body) ? reply.body : await joined(reply.body, call, limit);
  refuseFailure(reply, body);
  return body;
}

async function joined(stream: AsyncIterable<Buffer>, call: GrpcCall, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of leavable(stream, call)) {
    size += chunk.length;
    if (size > limit) {
      throw new ServeError(
        'RESPONSE_TOO_LARGE',
        `The joined stream of the model is larger than the limit of ${limit} bytes; call StreamPredictions to take it in pieces, or raise max_response_size.`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

/** The chunks of an answer until its client leaves; the worker hears of that at once. */
export async function* leavable(stream: AsyncIterable<Buffer>, call: GrpcCall): AsyncGenerator<Buffer, void> {
  const iterator = stream[Symbol.asyncIterator]();
  let over = false;
  const leave = () => {
    if (over) return;
    over = true;
    // The stream's own failure to stop is nobody's answer any more.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
  };
  if (call.gone) leave();
  const forget = call.onClose(leave);
  try {
    for (let step = await iterator.next(); !step.done; step = await iterator.next()) yield step.value;
    over = true;
  } finally {
    forget();
    leave();
  }
}

/** An answer whose handler called it a failure by its status is one here too. @throws {ServeError} with the body's text */
export function refuseFailure({ status }: PredictReply, body: Buffer): void {
  if (checkStatus(status) < 400) return;
  const text = body.toString('utf8', 0, longestBody).trim();
  throw new ServeError('PREDICTION_ERROR', text === '' ? `The model answered with status ${status}.` : text, { status });
}

/** Initial metadata of an answer: the call's id and the headers that the handler set. */
export function replyMetadata(reply: PredictReply, call: GrpcCall): Metadata {
  const metadata = headerMetadata(reply.headers);
  metadata.set('x-request-id', call.id);
  return metadata;
}
