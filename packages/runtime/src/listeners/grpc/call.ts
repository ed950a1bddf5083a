import { Metadata, type StatusObject } from '@grpc/grpc-js';
import { type Reason, type ServeError, toServeError } from '../../domain/errors.js';
import { grpcEnded } from '../../domain/events.js';
import { type Client, monotonicNow, type StageTimes } from '../../domain/request.js';
import { statusDetails } from '../../protocol/grpc/error-info.js';
import { grpcStatus, grpcStatusOf } from '../../protocol/grpc/status-map.js';
import type { ListenerLog } from '../exchange.js';
import { requestId } from '../request-id.js';
import { serverTiming } from '../server-timing.js';
import { firstText, printable } from './metadata.js';

/** Bytes. Clients refuse trailers above 8 KiB, and the sentence is in them twice, encoded. */
const longestDetails = 1000;

export interface GrpcStatus {
  readonly code: grpcStatus;
  readonly details: string;
  readonly metadata?: Metadata | null;
}

export interface CallOptions {
  readonly listener: 'inference' | 'management';
  /** `/package.Service/Method` */
  readonly path: string;
  readonly remote: string;
  /** Milliseconds since the epoch; Infinity: none. */
  readonly deadline: number;
  readonly log: ListenerLog | undefined;
}

/** One call and its answer, from its headers to its trailers. */
export class GrpcCall implements Client {
  #id: string | undefined;
  metadata = new Metadata();
  readonly startedAt = monotonicNow();
  /** When the request message was complete. */
  receivedAt = this.startedAt;
  /** Monotonic nanoseconds; undefined: none. */
  readonly deadline: number | undefined;
  requestBytes = 0;
  responseBytes = 0;
  stages: StageTimes | undefined;
  gone = false;
  onGone: (() => void) | undefined;
  /** The last error that was put into words. */
  #failure: ServeError | undefined;
  #reason: Reason | undefined;
  #code: grpcStatus | undefined;
  readonly #onClose = new Set<() => void>();

  constructor(readonly options: CallOptions) {
    const { deadline } = options;
    if (Number.isFinite(deadline)) this.deadline = monotonicNow() + (deadline - Date.now()) * 1e6;
  }

  get id(): string {
    this.#id ??= requestId(undefined);
    return this.#id;
  }

  get method(): string {
    return this.options.path.slice(1);
  }

  received(metadata: Metadata): void {
    this.metadata = metadata;
    this.#id = requestId(firstText(metadata, 'x-request-id'));
  }

  /** Calls back once when the call is over, however it ended. @returns a function that takes it back */
  onClose(callback: () => void): () => void {
    this.#onClose.add(callback);
    return () => this.#onClose.delete(callback);
  }

  /** Metadata that says which call it belongs to; what the library sends on its own lacks it. */
  identity(): Metadata {
    const metadata = new Metadata();
    metadata.set('x-request-id', this.id);
    return metadata;
  }

  /** Trailing metadata of a good answer. */
  trailers(): Metadata {
    const metadata = this.identity();
    const { stages, receivedAt, startedAt } = this;
    if (stages !== undefined)
      metadata.set('server-timing', serverTiming(stages, monotonicNow() - receivedAt, receivedAt - startedAt));
    return metadata;
  }

  /** The status that says what was thrown. */
  failure(thrown: unknown): StatusObject {
    const error = toServeError(thrown);
    if (error.code === 'INTERNAL') {
      this.options.log?.error({ err: error.cause ?? error, requestId: this.id, method: this.method }, 'call failed');
    }
    this.#failure = error;
    return this.statusOf(error);
  }

  statusOf(error: ServeError): StatusObject {
    const code = grpcStatusOf(error);
    const details = shortened(error.message);
    const metadata = this.trailers();
    metadata.set('x-error-reason', printable(error.reason));
    if (error.retryAfter !== undefined) metadata.set('retry-after', String(Math.max(1, Math.ceil(error.retryAfter))));
    metadata.set('grpc-status-details-bin', statusDetails(code, details, { reason: error.reason, requestId: this.id }));
    return { code, details, metadata };
  }

  /** Every status passes here on its way out, the library's own ones too. */
  sending(status: GrpcStatus, explain: (status: GrpcStatus) => ServeError | undefined): GrpcStatus {
    if (this.gone || this.#code !== undefined) return status;
    let out = status;
    if (firstText(status.metadata ?? new Metadata(), 'x-request-id') === undefined) {
      const error = explain(status);
      if (error !== undefined) {
        this.#failure = error;
        out = this.statusOf(error);
      }
    }
    this.#code = out.code;
    this.#reason = out.code === grpcStatus.OK ? undefined : this.#failure?.reason;
    return out;
  }

  /** The stream is over: answered in full, reset by the client, or past its deadline. */
  closed(): void {
    if (this.gone) return;
    this.gone = true;
    const code = this.#code ?? grpcStatus.CANCELLED;
    // Whoever waits in a queue has the same deadline and says so; as a client that left it would be counted wrongly.
    if (code !== grpcStatus.DEADLINE_EXCEEDED) this.onGone?.();
    for (const callback of this.#onClose) callback();
    this.#onClose.clear();
    if (!grpcEnded.active) return;
    grpcEnded.publish({
      listener: this.options.listener,
      remote: this.options.remote,
      method: this.method,
      code,
      ms: (monotonicNow() - this.startedAt) / 1e6,
      requestId: this.id,
      stages: this.stages,
      reason: this.#reason ?? (code === grpcStatus.CANCELLED ? 'cancelled' : undefined),
      requestBytes: this.requestBytes,
      responseBytes: this.responseBytes,
    });
  }
}

function shortened(text: string): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= longestDetails) return bytes.toString('utf8');
  return `${bytes
    .subarray(0, longestDetails)
    .toString('utf8')
    .replace(/\ufffd$/, '')}…`;
}
