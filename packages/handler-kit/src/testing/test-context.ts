import { readFile } from 'node:fs/promises';
import { isAbsolute, relative, resolve } from 'node:path';
import type {
  HandlerContext,
  HandlerLog,
  HandlerMetrics,
  LoadContext,
  MetricLabels,
  ModelInfo,
  SessionHandle,
} from '../context.js';
import type { InferenceRequest } from '../request.js';
import type { RecordedControls } from '../response-controls.js';
import { noSequence, type SequenceStates } from '../sequence-states.js';

/** What a handler has emitted through `ctx.metrics`. */
export interface RecordedMetric {
  readonly kind: keyof HandlerMetrics;
  readonly name: string;
  readonly value: number;
  readonly unit: string | undefined;
  readonly labels: MetricLabels;
}
export interface RecordedLog {
  readonly level: keyof HandlerLog;
  readonly message: string;
  readonly fields: Record<string, unknown> | undefined;
}

export interface ModelOptions {
  readonly name?: string;
  readonly version?: string;
  /** Folder that `ctx.model.path`, `text`, `json` and `bytes` read from; default the current one. */
  readonly directory?: string;
  /** Free keys of `model-config.yaml`. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly session?: SessionHandle;
  readonly sessions?: Readonly<Record<string, SessionHandle>>;
}

/** A `LoadContext` in memory that records logs and metrics. */
export function testContext(options: ModelOptions): { context: LoadContext; logs: RecordedLog[]; metrics: RecordedMetric[] } {
  const logs: RecordedLog[] = [];
  const metrics: RecordedMetric[] = [];
  const context: LoadContext = {
    model: modelInfo(options),
    session: options.session,
    sessions: options.sessions ?? {},
    log: logInto(logs),
    metrics: metricsInto(metrics),
    device: { type: 'cpu', id: undefined },
    worker: { id: 'test', threads: 1 },
  };
  return { context, logs, metrics };
}

export function requestContext(
  base: LoadContext,
  state: unknown,
  request: InferenceRequest,
  response: RecordedControls,
  sequences: SequenceStates,
): HandlerContext<unknown> {
  const { id, kind, signal, sequence } = request;
  return {
    ...base,
    state,
    request: { id, kind, signal },
    response,
    get sequence() {
      return sequence === undefined ? noSequence(base.model.name) : sequences.handle(sequence.id, sequence);
    },
  };
}

function modelInfo({ name = 'test', version = '1.0', directory = '.', config = {} }: ModelOptions): ModelInfo {
  const root = resolve(directory);
  const path = (file: string): string => {
    const full = resolve(root, file);
    const inside = relative(root, full);
    if (inside.startsWith('..') || isAbsolute(inside)) throw new Error(`"${file}" lies outside the archive of model "${name}"`);
    return full;
  };
  return {
    name,
    version,
    directory: root,
    config,
    path,
    bytes: async (file) => await readFile(path(file)),
    text: async (file) => await readFile(path(file), 'utf8'),
    json: async <T>(file: string) => JSON.parse(await readFile(path(file), 'utf8')) as T,
  };
}

function logInto(logs: RecordedLog[]): HandlerLog {
  const at = (level: keyof HandlerLog) => (message: string, fields?: Record<string, unknown>) => {
    logs.push({ level, message, fields });
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

function metricsInto(metrics: RecordedMetric[]): HandlerMetrics {
  const add = (kind: keyof HandlerMetrics, name: string, value: number, unit?: string, labels: MetricLabels = {}): void => {
    if (!Number.isFinite(value)) throw new TypeError(`metric "${name}" got ${value}, which is not a finite number`);
    if (kind === 'counter' && value < 0) throw new RangeError(`counter "${name}" cannot go down by ${-value}`);
    metrics.push({ kind, name, value, unit, labels });
  };
  return {
    counter: (name, value = 1, labels) => add('counter', name, value, undefined, labels),
    gauge: (name, value, unit, labels) => add('gauge', name, value, unit, labels),
    time: (name, value, unit = 'ms', labels) => add('time', name, value, unit, labels),
    size: (name, value, unit = 'MB', labels) => add('size', name, value, unit, labels),
    percent: (name, value, labels) => add('percent', name, value, 'percent', labels),
    histogram: (name, value, labels) => add('histogram', name, value, undefined, labels),
  };
}
