import { type Metadata, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js';
import type { Authorizer, Scope } from '../../domain/authorization.js';
import { ServeError } from '../../domain/errors.js';
import { grpcStatus } from '../../protocol/grpc/status-map.js';
import type { ListenerLog } from '../exchange.js';
import { GrpcCall, type GrpcStatus } from './call.js';
import { serviceNames } from './definitions.js';
import { firstText } from './metadata.js';

export interface InterceptorOptions {
  /** Whose calls those of services without a scope of their own are. */
  readonly listener: Scope;
  readonly authorizer: Authorizer | undefined;
  readonly maxRequestSize: number;
  /** Told of calls that never reached their service. */
  readonly refused: (call: GrpcCall, error: ServeError) => void;
  readonly log: ListenerLog | undefined;
}

/** The calls of a server that are not over yet. */
export class OpenCalls {
  readonly #calls = new Map<GrpcCall, (status: GrpcStatus) => void>();
  readonly #byMetadata = new WeakMap<Metadata, GrpcCall>();

  get size(): number {
    return this.#calls.size;
  }

  add(call: GrpcCall, end: (status: GrpcStatus) => void): void {
    this.#calls.set(call, end);
    call.onClose(() => this.#calls.delete(call));
  }

  received(call: GrpcCall, metadata: Metadata): void {
    call.received(metadata);
    this.#byMetadata.set(metadata, call);
  }

  /** The call that a service's method was invoked for. */
  of({ metadata }: { readonly metadata: Metadata }): GrpcCall {
    const call = this.#byMetadata.get(metadata);
    if (call === undefined) throw new TypeError('a call that no interceptor has seen');
    return call;
  }

  /** Ends those calls that would stay open for ever. */
  end(which: (call: GrpcCall) => boolean, error: ServeError): void {
    for (const [call, end] of this.#calls) if (which(call)) end(call.failure(error));
  }
}

/** Gives every call an identity, asks whether its caller may go on, and puts every refusal of the library into our words. */
export function interceptor(calls: OpenCalls, options: InterceptorOptions): ServerInterceptor {
  const { authorizer, maxRequestSize, refused, log } = options;
  return (method, base) => {
    const scope = scopeOf(method.path, options.listener);
    const { remoteAddress, remotePort } = base.getConnectionInfo();
    const deadline = base.getDeadline();
    const call = new GrpcCall({
      listener: scope,
      path: method.path,
      remote: remoteAddress === undefined ? 'unix:' : `${remoteAddress}:${remotePort ?? ''}`,
      deadline: deadline instanceof Date ? deadline.getTime() : deadline,
      log,
    });
    const explain = (status: GrpcStatus) => {
      const error = libraryError(status, maxRequestSize);
      if (error !== undefined && error.code !== 'DEADLINE_EXCEEDED') refused(call, error);
      return error;
    };
    // What the library itself refuses, such as a message that is too large, passes through no interceptor but through this method.
    const sendStatus = base.sendStatus.bind(base);
    base.sendStatus = (status) => sendStatus(call.sending(status, explain));
    calls.add(call, (status) => base.sendStatus(status));
    return new ServerInterceptingCall(base, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, forward) => {
            calls.received(call, metadata);
            const refusal = isProbe(method.path) ? undefined : authorizer?.check(scope, firstText(metadata, 'authorization'));
            if (refusal === undefined) {
              forward(metadata);
              return;
            }
            if (scope === 'inference') refused(call, refusal);
            base.sendStatus(call.failure(refusal));
          },
          onCancel: () => call.closed(),
        }),
    });
  };
}

const probes = new Set([
  `/${serviceNames.health}/Check`,
  `/${serviceNames.health}/Watch`,
  `/${serviceNames.inference}/Ping`,
  `/${serviceNames.openInference}/ServerLive`,
  `/${serviceNames.openInference}/ServerReady`,
]);

/** Methods by which machines ask whether the server lives; they need no token. */
function isProbe(path: string): boolean {
  return probes.has(path);
}

function scopeOf(path: string, listener: Scope): Scope {
  if (path.startsWith(`/${serviceNames.management}/`)) return 'management';
  if (path.startsWith(`/${serviceNames.inference}/`) || path.startsWith(`/${serviceNames.openInference}/`)) return 'inference';
  return listener;
}

/** What the library refuses on its own, said so that a client can act on it. Undefined: its own words will do. */
function libraryError({ code, details }: GrpcStatus, maxRequestSize: number): ServeError | undefined {
  if (code === grpcStatus.DEADLINE_EXCEEDED)
    return new ServeError('DEADLINE_EXCEEDED', "The call's deadline passed before its answer was complete.");
  if (code === grpcStatus.RESOURCE_EXHAUSTED) {
    const size = /\((\d+) vs/.exec(details)?.[1];
    const got = size === undefined ? 'The request message is larger' : `The request message has ${size} bytes, more`;
    const limit = `than the limit of ${maxRequestSize} bytes; raise max_request_size to accept it.`;
    return new ServeError('PAYLOAD_TOO_LARGE', `${got} ${limit}`);
  }
  if (code !== grpcStatus.INTERNAL) return undefined;
  if (/deserializ/.test(details))
    return new ServeError('BAD_REQUEST', 'The request is not a message of the type that the method takes.');
  if (details.startsWith('Invalid grpc-timeout'))
    return new ServeError(
      'BAD_REQUEST',
      'The metadata grpc-timeout is none: up to eight digits, then one of H, M, S, m, u and n.',
    );
  if (/decompress/.test(details)) return new ServeError('BAD_REQUEST', 'The request message cannot be decompressed.');
  return undefined;
}
