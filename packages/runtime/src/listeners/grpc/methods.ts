import type {
  handleServerStreamingCall,
  handleUnaryCall,
  Metadata,
  sendUnaryData,
  ServerUnaryCall,
  ServerWritableStream,
  StatusObject,
} from '@grpc/grpc-js';
import { monotonicNow } from '../../domain/request.js';
import type { GrpcCall } from './call.js';
import type { OpenCalls } from './interceptor.js';

/** What both kinds of streams that a server writes have. */
interface Writer<T> {
  write(message: T): boolean;
  on(event: 'drain', listener: () => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
  emit(event: 'error', status: StatusObject): boolean;
}

/** A method with one answer. */
export function unary<Request, Answer>(
  calls: OpenCalls,
  run: (request: Request, call: GrpcCall, surface: { sendMetadata(metadata: Metadata): void }) => Promise<Answer>,
): handleUnaryCall<Request, Answer> {
  const answer = async (surface: ServerUnaryCall<Request, Answer>, callback: sendUnaryData<Answer>) => {
    const call = calls.of(surface);
    call.receivedAt = monotonicNow();
    let message: Answer;
    try {
      message = await run(surface.request, call, surface);
    } catch (error) {
      callback(call.failure(error));
      return;
    }
    callback(null, message, call.trailers());
  };
  return (surface, callback) => void answer(surface, callback);
}

/** A method that answers with a stream, written by `run`; the stream ends when it returns. */
export function streaming<Request, Answer>(
  calls: OpenCalls,
  run: (request: Request, call: GrpcCall, surface: ServerWritableStream<Request, Answer>) => Promise<void>,
): handleServerStreamingCall<Request, Answer> {
  const answer = async (surface: ServerWritableStream<Request, Answer>) => {
    const call = calls.of(surface);
    call.receivedAt = monotonicNow();
    try {
      await run(surface.request, call, surface);
      surface.end(call.trailers());
    } catch (error) {
      fail(surface, call, error);
    }
  };
  return (surface) => void answer(surface);
}

/** Ends a stream with an error; what was written before goes out first. */
export function fail<Answer>(surface: Writer<Answer>, call: GrpcCall, error: unknown): void {
  if (!call.gone) surface.emit('error', call.failure(error));
}

/** Writes one message, and waits until the client takes more when it is slow. */
export async function write<Answer>(surface: Writer<Answer>, call: GrpcCall, message: Answer): Promise<void> {
  if (call.gone || surface.write(message)) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      surface.off('drain', done);
      forget();
      resolve();
    };
    surface.on('drain', done);
    const forget = call.onClose(done);
  });
}
