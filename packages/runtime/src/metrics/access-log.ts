import { grpcEnded, type GrpcEnded, httpEnded, type HttpEnded } from '../domain/events.js';
import type { LogLevels } from '../domain/log-levels.js';
import { levelRank, localTime, record, stageText, type Level } from './line-format.js';
import type { LogFiles } from './log-files.js';
import { redact } from './redact.js';

export interface AccessLogOptions {
  readonly files: LogFiles;
  readonly levels: LogLevels;
  readonly format: 'torchserve' | 'json';
  readonly now?: () => number;
}

/** Requests of machines that ask whether the server lives. They come every second and mean nothing when they succeed. */
export function isProbe(url: string): boolean {
  const end = url.indexOf('?');
  const path = end < 0 ? url : url.slice(0, end);
  return path === '/ping' || path === '/metrics' || /^\/(?:v2\/)?health(?:\/|$)/.test(path);
}

/** Methods of gRPC that only ask whether the server lives. */
function isGrpcProbe(method: string): boolean {
  return /(?:\.Health\/(?:Check|Watch)|\/Ping|\/ServerLive|\/ServerReady)$/.test(method);
}

/** One line for each request, TorchServe's fields first. Probes that succeed are lines of level debug, unless they are asked for. */
export function logAccess({ files, levels, format, now = Date.now }: AccessLogOptions): () => void {
  const log = (isGoodProbe: boolean, event: Ended) => {
    const { access, accessProbes } = levels.settings;
    const own: Level = isGoodProbe && !accessProbes ? 'debug' : 'info';
    if (levelRank[own] < levelRank[access]) return;
    const at = now();
    if (format === 'json') {
      const line = json(event, at, own);
      files.access.write(line);
      files.server.write(line);
      files.print(line);
      return;
    }
    const text = accessText(event);
    files.access.write(`${localTime(at)} - ${text}\n`);
    const line = record(at, own, event.listener, 'ACCESS_LOG', text);
    files.server.write(line);
    files.print(line);
  };
  const ends = [
    httpEnded.subscribe((event) => log(event.status < 400 && isProbe(event.url), event)),
    grpcEnded.subscribe((event) => log(event.code === 0 && isGrpcProbe(event.method), event)),
  ];
  return () => {
    for (const end of ends) end();
  };
}

function safeUrl(url: string): string {
  // A quote or a line break in an address must not look like the end of the field or of the record.
  // eslint-disable-next-line no-control-regex
  return redact(url).replace(/[\u0000-\u0020"\u007f]/g, (it) => `%${it.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** What both kinds of requests have. */
type Ended = HttpEnded | GrpcEnded;

export function accessText(event: Ended): string {
  const { stages } = event;
  const what =
    'url' in event
      ? `"${event.method} ${safeUrl(event.url)} HTTP/${event.httpVersion}" ${event.status}`
      : `"gRPC ${event.method} HTTP/2.0" ${event.code}`;
  let text = `${event.remote} ${what} ${Math.round(event.ms)} id=${event.requestId}`;
  if (stages !== undefined) {
    text += ` queue=${stageText(stages.queue)} preprocess=${stageText(stages.preprocess)} wait=${stageText(stages.wait)} inference=${stageText(stages.inference)} postprocess=${stageText(stages.postprocess)} encode=${stageText(stages.encode)}`;
  }
  return event.reason === undefined ? text : `${text} reason=${event.reason}`;
}

function json(event: Ended, at: number, level: Level): string {
  const { stages, ms, ...rest } = event;
  const milliseconds =
    stages && Object.fromEntries(Object.entries(stages).map(([stage, ns]) => [stage, Math.round(ns / 1e3) / 1e3]));
  const shown = 'url' in rest ? { ...rest, url: redact(rest.url) } : { protocol: 'grpc', ...rest };
  const fields = { time: new Date(at).toISOString(), level, log: 'access', ...shown, ms, stages: milliseconds };
  return `${JSON.stringify(fields)}\n`;
}
