import { readFile } from 'node:fs/promises';
import { isAbsolute, relative, resolve } from 'node:path';
import type { HandlerLog, LoadContext, ModelInfo, SessionHandle } from '@onnxserve/handler-kit';
import { type LogLevel, logLevels } from '../domain/log-levels.js';
import type { Connection } from '../ipc/connection.js';
import type { FromWorker, LoadSpec, WireMetric } from '../ipc/messages.js';
import type { Session } from './engines/session.js';
import { checkFeeds } from '@onnxserve/handler-kit/internal';
import { MetricSink } from './item.js';

/** What `load` and the stages of a whole batch get. */
export function loadContext(
  spec: LoadSpec,
  session: Session | undefined,
  sessions: Readonly<Record<string, Session>>,
  connection: Connection,
  addMetric: (metric: WireMetric) => void,
): LoadContext {
  return {
    model: modelInfo(spec),
    session: session === undefined ? undefined : sessionHandle(session),
    sessions: Object.fromEntries(Object.entries(sessions).map(([name, it]) => [name, sessionHandle(it)])),
    log: log(connection),
    metrics: new MetricSink((metric) => addMetric({ ...metric, requestIds: '' })),
    device: spec.device,
    worker: { id: spec.workerId, threads: spec.threads },
  };
}

function sessionHandle(session: Session): SessionHandle {
  return {
    inputs: session.inputs,
    outputs: session.outputs,
    providers: session.providers,
    async run(feeds, outputs) {
      checkFeeds(feeds, session.inputs);
      return await session.run(feeds, outputs);
    },
  };
}

function modelInfo(spec: LoadSpec): ModelInfo {
  const path = (file: string): string => {
    const full = resolve(spec.directory, file);
    const inside = relative(spec.directory, full);
    if (inside.startsWith('..') || isAbsolute(inside))
      throw new Error(`"${file}" lies outside the archive of model "${spec.name}"`);
    return full;
  };
  return {
    name: spec.name,
    version: spec.version,
    directory: spec.directory,
    config: spec.free,
    path,
    bytes: async (file) => await readFile(path(file)),
    text: async (file) => await readFile(path(file), 'utf8'),
    json: async <T>(file: string) => JSON.parse(await readFile(path(file), 'utf8')) as T,
  };
}

let least = 0;

/** What is less important is not even sent. */
export function setLogLevel(level: LogLevel): void {
  least = logLevels.indexOf(level);
}

function log(connection: Connection): HandlerLog {
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (message: string, fields?: Record<string, unknown>) => {
    if (logLevels.indexOf(level) < least) return;
    const record: FromWorker = {
      type: 'log',
      level,
      message,
      ...(fields === undefined ? {} : { fields: plain(fields) }),
    };
    connection.send(record);
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Fields that JSON can hold, whatever a handler passes. */
function plain(fields: Record<string, unknown>): Record<string, unknown> {
  try {
    JSON.stringify(fields);
    return fields;
  } catch {
    return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, String(value)]));
  }
}
