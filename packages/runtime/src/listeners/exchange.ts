import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ByteBudget } from '../admission/byte-budget.js';
import type { TokenService } from '../domain/authorization.js';
import { type Reason, ServeError, toServeError } from '../domain/errors.js';
import { httpEnded } from '../domain/events.js';
import { type StageTimes, monotonicNow } from '../domain/request.js';
import { errorBody, prettyJson } from '../protocol/torchserve/error-body.js';
import { splitUrl } from '../protocol/torchserve/path.js';
import { torchServeError } from '../protocol/torchserve/status-map.js';
import { hasBody } from './body.js';
import { requestId } from './request-id.js';
import { serverTiming } from './server-timing.js';

export type ListenerName = 'inference' | 'management' | 'metrics';

/** Where errors go that clients must not read. */
export interface ListenerLog {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** What all exchanges of a server share. */
export interface ExchangeSettings {
  /** `[name, value, ...]` of the CORS headers; empty when not configured. */
  readonly cors: readonly string[];
  readonly maxRequestSize: number;
  /** What the bodies of all requests may take together. */
  readonly bodies?: ByteBudget | undefined;
  /** What a full queue is answered with. */
  readonly queueFullStatus?: 429 | 503;
  /** Milliseconds that a client may take nothing of its answer. */
  readonly writeTimeout?: number;
  readonly log: ListenerLog | undefined;
  /** Undefined: nobody needs a token. */
  readonly tokens?: TokenService | undefined;
  /** True from the beginning of a shutdown: answers close their connection. */
  draining: boolean;
  /** Exchanges that are not over. */
  open: number;
}

const owner = Symbol('exchange');
type Owned = ServerResponse & { [owner]: Exchange };

function onClose(this: ServerResponse): void {
  (this as Owned)[owner].closed();
}

/** One request and its answer. */
export class Exchange {
  readonly id: string;
  readonly path: string;
  readonly search: string;
  readonly startedAt = monotonicNow();
  /** When the body was complete. */
  receivedAt = 0;
  requestBytes = 0;
  responseBytes = 0;
  private held = 0;
  reason: Reason | undefined;
  stages: StageTimes | undefined;
  /** Headers for whatever the answer will be, `[name, value, ...]`. */
  readonly extra: string[] = [];
  /** Both are called once when the client leaves before its answer was complete. */
  onGone: (() => void) | undefined;
  onStreamGone: (() => void) | undefined;
  gone = false;
  private limited = false;
  // Asked while the socket is open: a closed one no longer knows.
  private readonly remote: string;

  constructor(
    public listener: ListenerName,
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly settings: ExchangeSettings,
  ) {
    this.id = requestId(request.headers['x-request-id']);
    const { path, search } = splitUrl(request.url ?? '/');
    this.path = path;
    this.search = search;
    this.remote = httpEnded.active ? `${request.socket.remoteAddress ?? ''}:${request.socket.remotePort ?? ''}` : '';
    settings.open++;
    (response as Owned)[owner] = this;
    response.once('close', onClose);
  }

  get method(): string {
    return this.request.method ?? 'GET';
  }

  /** Headers that every answer carries. */
  common(): string[] {
    const headers = [
      'x-request-id',
      this.id,
      'Pragma',
      'no-cache',
      'Cache-Control',
      'no-cache; no-store, must-revalidate, private',
      'Expires',
      'Thu, 01 Jan 1970 00:00:00 UTC',
    ];
    if (this.settings.cors.length > 0) headers.push(...this.settings.cors);
    if (this.extra.length > 0) headers.push(...this.extra);
    if (this.settings.draining) headers.push('Connection', 'close');
    return headers;
  }

  timing(): string {
    const received = this.receivedAt === 0 ? this.startedAt : this.receivedAt;
    return serverTiming(this.stages, monotonicNow() - received, received - this.startedAt);
  }

  send(status: number, contentType: string, body: string | Buffer): void {
    if (this.response.headersSent || this.response.destroyed) return;
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const headers = ['content-type', contentType, ...this.common()];
    if (this.listener === 'inference') headers.push('Server-Timing', this.timing());
    headers.push('content-length', String(bytes.length));
    this.responseBytes = bytes.length;
    this.response.writeHead(status, headers);
    if (this.resetsSender()) this.endAfterRequest(bytes);
    else this.response.end(bytes);
  }

  /** True when ending now would close the connection while the client still sends: the reset could reach it before the answer. */
  private resetsSender(): boolean {
    const { request, response, settings } = this;
    const closes = settings.draining || !response.shouldKeepAlive;
    // Who expects a 100 and gets a refusal sends no body.
    return closes && !request.complete && request.headers.expect === undefined && hasBody(request);
  }

  private endAfterRequest(bytes: Buffer): void {
    const { request, response } = this;
    response.write(bytes);
    const end = () => response.end();
    request.once('end', end);
    request.once('close', end);
    request.resume();
  }

  json(status: number, value: unknown): void {
    this.send(status, 'application/json', prettyJson(value));
  }

  empty(status: number): void {
    this.response.writeHead(status, [...this.common(), 'content-length', '0']);
    this.response.end();
  }

  /** Answers with what was thrown. After the head has been sent the connection is broken instead: never a clean end. */
  fail(thrown: unknown): void {
    const error = toServeError(thrown);
    if (error.code === 'INTERNAL') {
      this.settings.log?.error(
        { err: error.cause ?? error, requestId: this.id, method: this.method, url: this.request.url },
        'request failed',
      );
    }
    this.reason = error.reason;
    if (this.response.headersSent) {
      this.break();
      return;
    }
    let { status, type } = torchServeError(error);
    if (error.code === 'QUEUE_FULL' && this.settings.queueFullStatus === 429) [status, type] = [429, 'TooManyRequestsException'];
    if (error.retryAfter !== undefined) this.extra.push('Retry-After', String(Math.max(1, Math.ceil(error.retryAfter))));
    else if (error.code === 'QUEUE_FULL') this.extra.push('Retry-After', '1');
    if (error.code === 'UNAUTHORIZED') this.extra.push('WWW-Authenticate', 'Bearer');
    this.refuse(status, type, error.message, error.reason);
  }

  refuse(status: number, type: string, message: string, reason: Reason): void {
    this.reason = reason;
    this.send(status, 'application/json', errorBody(status, type, message, reason, this.id));
  }

  /** Ends the connection so that the client cannot take the answer for complete. */
  break(): void {
    const { socket } = this.response;
    // Without chunks the end of the connection would look like the end of the body.
    if (socket && !this.response.chunkedEncoding) socket.resetAndDestroy();
    else this.response.destroy();
  }

  methodNotAllowed(allow: string): never {
    this.extra.push('Allow', allow);
    throw new ServeError('METHOD_NOT_ALLOWED', `${this.method} is not allowed on ${this.path.slice(0, 200)}; it takes ${allow}.`);
  }

  /** Counts bytes of its body, until it has ended. */
  hold(bytes: number): void {
    this.held += bytes;
  }

  /** Ends the connection when the client takes nothing of the answer for too long. */
  limitWriting(): void {
    const { writeTimeout } = this.settings;
    if (writeTimeout === undefined || writeTimeout === 0 || this.limited || this.response.writableFinished) return;
    this.limited = true;
    // Of the socket: it counts from the last byte that moved.
    this.response.setTimeout(writeTimeout, () => this.break());
  }

  closed(): void {
    this.settings.open--;
    if (this.held > 0) this.settings.bodies?.give(this.held);
    const complete = this.response.writableFinished;
    if (!complete) {
      this.gone = true;
      this.onGone?.();
      this.onStreamGone?.();
    }
    if (!httpEnded.active) return;
    const { request, response } = this;
    httpEnded.publish({
      listener: this.listener,
      remote: this.remote,
      method: this.method,
      url: request.url ?? '/',
      httpVersion: request.httpVersion,
      status: response.headersSent ? response.statusCode : 499,
      ms: (monotonicNow() - this.startedAt) / 1e6,
      requestId: this.id,
      stages: this.stages,
      reason: this.reason ?? (complete ? undefined : 'cancelled'),
      requestBytes: this.requestBytes,
      responseBytes: this.responseBytes,
    });
  }
}
