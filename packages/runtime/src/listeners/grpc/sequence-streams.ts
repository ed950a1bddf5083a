import type { handleBidiStreamingCall, ServerDuplexStream } from '@grpc/grpc-js';
import { ServeError, toServeError } from '../../domain/errors.js';
import type { Client, InferenceService } from '../../domain/request.js';
import type { SequenceKeys } from '../../domain/sequence-keys.js';
import { errorInfo } from '../../protocol/grpc/error-info.js';
import type { PredictionResponse, PredictionsRequest } from '../../protocol/torchserve/grpc-messages.js';
import type { GrpcCall } from './call.js';
import type { OpenCalls } from './interceptor.js';
import { fail, write } from './methods.js';
import { leavable, predictRequest, refuseFailure } from './predict.js';
import { sequenceOf } from './sequence.js';

/** Requests of one stream that may be unanswered; more stay with the client, held back by flow control. */
const mostPending = 32;

type Surface = ServerDuplexStream<PredictionsRequest, PredictionResponse>;

export interface SequenceStreamsOptions {
  readonly calls: OpenCalls;
  readonly inference: InferenceService;
  readonly sequenceKeys: SequenceKeys;
}

/** The streams of StreamPredictions2 that are open. */
export class SequenceStreams {
  readonly #open = new Set<SequenceStream>();
  readonly method: handleBidiStreamingCall<PredictionsRequest, PredictionResponse>;

  constructor(options: SequenceStreamsOptions) {
    this.method = (surface) => {
      const call = options.calls.of(surface);
      const stream = new SequenceStream(surface, call, options);
      this.#open.add(stream);
      call.onClose(() => this.#open.delete(stream));
    };
  }

  /** Takes no more requests; each stream ends when those it has are answered. */
  stop(error: ServeError): void {
    for (const stream of this.#open) stream.stop(error);
  }
}

/** One call: its requests run in order within each sequence, and every answer goes out before the call ends. */
class SequenceStream {
  readonly #surface: Surface;
  readonly #call: GrpcCall;
  readonly #options: SequenceStreamsOptions;
  /** The last answer of each sequence that is not complete. */
  readonly #sequences = new Map<string, Promise<void>>();
  #pending = 0;
  #halfClosed = false;
  #stopped: ServeError | undefined;

  constructor(surface: Surface, call: GrpcCall, options: SequenceStreamsOptions) {
    this.#surface = surface;
    this.#call = call;
    this.#options = options;
    surface.sendMetadata(call.identity());
    surface.on('data', (request: PredictionsRequest) => this.#receive(request));
    surface.on('end', () => {
      this.#halfClosed = true;
      this.#finish();
    });
  }

  stop(error: ServeError): void {
    this.#stopped = error;
    this.#surface.pause();
    this.#finish();
  }

  #receive(request: PredictionsRequest): void {
    this.#pending++;
    if (this.#pending >= mostPending) this.#surface.pause();
    const id = request.sequence_id ?? '';
    const before = this.#sequences.get(id) ?? Promise.resolve();
    const answered = before
      .then(() => this.#answer(request))
      .finally(() => {
        if (this.#sequences.get(id) === answered) this.#sequences.delete(id);
        this.#pending--;
        if (this.#stopped === undefined && this.#pending < mostPending) this.#surface.resume();
        this.#finish();
      });
    this.#sequences.set(id, answered);
  }

  /** Never rejects: what went wrong is the answer. */
  async #answer(request: PredictionsRequest): Promise<void> {
    const named = request.sequence_id === undefined ? {} : { sequence_id: request.sequence_id };
    try {
      await this.#predict(request, named);
    } catch (error) {
      const { code, details } = this.#call.failure(error);
      const { reason } = toServeError(error);
      const info = errorInfo({ reason, requestId: this.#call.id });
      await write(this.#surface, this.#call, { ...named, status: { code, message: details, details: [info] } });
    }
  }

  async #predict(request: PredictionsRequest, named: { readonly sequence_id?: string }): Promise<void> {
    const call = this.#call;
    if (call.gone) return;
    const sequence = sequenceOf(request, call, this.#options.sequenceKeys);
    if (sequence.mark === undefined || sequence.mark.id === '') {
      throw new ServeError('BAD_REQUEST', 'sequence_id is missing; every request of StreamPredictions2 names its sequence.');
    }
    const waiter = new Waiter();
    const forget = call.onClose(() => waiter.leave());
    try {
      const reply = await this.#options.inference.predict(predictRequest(request, call, waiter, sequence));
      if (Buffer.isBuffer(reply.body)) {
        refuseFailure(reply, reply.body);
        call.responseBytes += reply.body.length;
        await write(this.#surface, call, { ...named, prediction: reply.body });
        return;
      }
      for await (const prediction of leavable(reply.body, call)) {
        call.responseBytes += prediction.length;
        await write(this.#surface, call, { ...named, prediction });
      }
    } finally {
      forget();
    }
  }

  #finish(): void {
    if (this.#pending > 0 || this.#call.gone) return;
    if (this.#halfClosed) this.#surface.end(this.#call.trailers());
    else if (this.#stopped !== undefined) fail(this.#surface, this.#call, this.#stopped);
  }
}

/** One request among several of a call. */
class Waiter implements Client {
  gone = false;
  onGone: (() => void) | undefined;

  leave(): void {
    this.gone = true;
    this.onGone?.();
  }
}
