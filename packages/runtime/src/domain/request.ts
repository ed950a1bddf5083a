import type { Envelope } from './envelope.js';
import type { ServeError } from './errors.js';

export type RequestKind = 'predict' | 'explain' | 'describe';

/** Whoever waits for an answer and may leave before it comes. A plain pair of fields, since every request has one. */
export interface Client {
  readonly gone: boolean;
  /** Called once, when the client leaves. */
  onGone: (() => void) | undefined;
}

/** Place of a request in a sequence of requests that share state. */
export interface SequenceMark {
  /** Empty when the client leaves the choice to the server. */
  readonly id: string;
  readonly start: boolean;
  readonly end: boolean;
  /** The server chose the id: until its first answer the client does not know it. */
  readonly made?: boolean;
}

/** One inference request as the front knows it. Nothing in it is decoded: that is the worker's work. */
export interface PredictRequest {
  readonly id: string;
  readonly modelName: string;
  /** As the client named it; undefined for the default version. */
  readonly modelVersion: string | undefined;
  readonly kind: RequestKind;
  /** `[name, value, name, value, ...]` as they came. */
  readonly rawHeaders: readonly string[];
  readonly urlPath: string;
  readonly query: ReadonlyArray<readonly [string, string]>;
  /** On TorchServe's legacy paths query parameters are inputs, like the fields of a form. */
  readonly queryIsInput?: boolean;
  readonly body: Buffer;
  /** Named inputs of a protocol that has them, in order: the name of each and how many bytes of the body are its value. */
  readonly parts?: ReadonlyArray<readonly [name: string, length: number]>;
  /** The form of the body that the protocol demands, `none`: as it is; undefined: what the server is configured for. */
  readonly envelope?: Envelope | 'none';
  /** The sequence that the request belongs to, as its client named it. */
  readonly sequence?: SequenceMark;
  /** Monotonic nanoseconds (`process.hrtime`) when the request's body was complete. */
  readonly receivedAt: number;
  /** Monotonic nanoseconds after which nobody waits for the answer. */
  readonly deadline?: number | undefined;
  /** Part of a request that was accepted before: a server that drains still takes it. */
  readonly admitted?: boolean;
  /** Whoever waits for the answer; undefined when nobody can leave. */
  readonly client: Client | undefined;
}

/** Where the time of a request went, in nanoseconds; every stage was measured on its own. */
export interface StageTimes {
  queue: number;
  preprocess: number;
  wait: number;
  inference: number;
  postprocess: number;
  encode: number;
}

export interface PredictReply {
  readonly status: number;
  /** `[name, value]` pairs that the handler set, content-type included. */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  /** The whole body, or a stream of chunks. A stream that breaks throws a ServeError. */
  readonly body: Buffer | AsyncIterable<Buffer>;
  /** Filled when a streamed body has ended. */
  readonly stages: StageTimes;
  readonly batchSize: number;
  readonly workerId: string;
  readonly modelVersion: string;
}

/** The data plane: every protocol translates to this one call. */
export interface InferenceService {
  /** @throws {ServeError} */
  predict(request: PredictRequest): Promise<PredictReply>;
  /** Counts a request that was refused before it was complete, such as one with too large a body. */
  refused(request: Pick<PredictRequest, 'id' | 'modelName' | 'modelVersion'>, error: ServeError): void;
}

export function noStages(): StageTimes {
  return { queue: 0, preprocess: 0, wait: 0, inference: 0, postprocess: 0, encode: 0 };
}

/** Monotonic clock shared by all processes of the machine, in nanoseconds. */
export function monotonicNow(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e9 + nanoseconds;
}
