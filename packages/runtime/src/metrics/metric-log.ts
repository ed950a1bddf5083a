import {
  handlerMetric,
  httpEnded,
  requestEnded,
  workerChanged,
  type HandlerMetric,
  type RequestEnded,
} from '../domain/events.js';
import { localTime } from './line-format.js';
import type { LogFile } from './log-file.js';
import type { LogFiles } from './log-files.js';
import { families, type FamilySpec } from './names.js';
import { milliseconds } from './recorder.js';

export interface MetricLogOptions {
  readonly files: LogFiles;
  readonly hostname: string;
  readonly format: 'torchserve' | 'json';
  readonly now?: () => number;
}

/** Handler values that are written in one second; more are left out of the file, not of the endpoint. */
const MAX_HANDLER_LINES = 2000;

/** What the requests of a second add up to, for one model and one value of the version label. */
interface Sums {
  readonly model: string;
  readonly version: string;
  requests: number;
  latencyNs: number;
  queueNs: number;
  measured: boolean;
  lastQueueNs: number;
  lastThreadNs: number;
  lastHandledNs: number;
  lastEncodeNs: number;
  lastId: string;
}

interface Entry {
  readonly file: 'serverMetrics' | 'modelMetrics';
  readonly name: string;
  readonly unit: string;
  readonly dimensions: string;
  value: number;
  requestId: string | undefined;
}

/**
 * ts_metrics.log and model_metrics.log. Counters are summed and gauges kept for a second before they are written, so that
 * the sums over a file are those of a line for each request, at the cost of a few lines a second.
 */
export class MetricLog {
  readonly #options: MetricLogOptions;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  readonly #sums = new Map<string, Map<string, Sums>>();
  readonly #statuses = { success: 0, client: 0, other: 0 };
  readonly #end: ReadonlyArray<() => void>;
  #handlerLines = 0;

  constructor(options: MetricLogOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    options.files.beforeFlush(() => this.#write());
    this.#end = [
      httpEnded.subscribe(({ status }) => {
        this.#statuses[status >= 200 && status < 300 ? 'success' : status >= 400 && status < 500 ? 'client' : 'other'] += 1;
      }),
      requestEnded.subscribe((event) => this.#requestEnded(event)),
      workerChanged.subscribe(({ workerId, model, version, loadSeconds }) => {
        if (loadSeconds === undefined) return;
        this.host(
          families.WorkerLoadTime,
          Math.round(loadSeconds * 1000),
          `WorkerName:W-${workerId}-${model}_${version},Level:Host`,
        );
      }),
      handlerMetric.subscribe((event) => this.#handlerMetric(event)),
    ];
  }

  /** A value of this second for ts_metrics.log. */
  host(spec: Pick<FamilySpec, 'name' | 'unit'>, value: number, dimensions = 'Level:Host'): void {
    this.#entry('serverMetrics', spec.name, spec.unit, dimensions).value = value;
  }

  close(): void {
    for (const end of this.#end) end();
  }

  #requestEnded({ model, version, requestedVersion, requestId, totalNs, stages, outcome }: RequestEnded): void {
    // A name that only the client knows is no dimension.
    if (model === '' || outcome === 'MODEL_NOT_FOUND' || outcome === 'MODEL_VERSION_NOT_FOUND') return;
    const sums = this.#sumsOf(model, requestedVersion === undefined ? 'default' : version);
    sums.requests += 1;
    sums.latencyNs += totalNs;
    if (stages === undefined) return;
    const handled = stages.preprocess + stages.wait + stages.inference + stages.postprocess;
    sums.queueNs += stages.queue;
    sums.measured = true;
    sums.lastQueueNs = stages.queue;
    sums.lastThreadNs = Math.max(0, totalNs - stages.queue - handled - stages.encode);
    sums.lastHandledNs = handled;
    sums.lastEncodeNs = stages.encode;
    sums.lastId = requestId;
  }

  #sumsOf(model: string, version: string): Sums {
    let ofModel = this.#sums.get(model);
    if (ofModel === undefined) {
      ofModel = new Map();
      this.#sums.set(model, ofModel);
    }
    let sums = ofModel.get(version);
    if (sums === undefined) {
      const times = { requests: 0, latencyNs: 0, queueNs: 0, lastQueueNs: 0, lastThreadNs: 0, lastHandledNs: 0, lastEncodeNs: 0 };
      sums = { model, version, ...times, measured: false, lastId: '' };
      ofModel.set(version, sums);
    }
    return sums;
  }

  #enter(sums: Sums): void {
    const dimensions = `model_name:${sums.model},model_version:${sums.version}`;
    const add = (spec: FamilySpec, value: number) => this.host(spec, value, dimensions);
    add(families.inferenceRequests, sums.requests);
    add(families.inferenceLatency, sums.latencyNs / 1e3);
    if (!sums.measured) return;
    add(families.queueLatency, sums.queueNs / 1e3);
    this.host(families.QueueTime, milliseconds(sums.lastQueueNs));
    this.host(families.WorkerThreadTime, milliseconds(sums.lastThreadNs));
    const ofModel = `ModelName:${sums.model},Level:Model`;
    for (const [spec, ns] of [
      [families.HandlerTime, sums.lastHandledNs],
      [families.PredictionTime, sums.lastHandledNs + sums.lastEncodeNs],
    ] as const) {
      const entry = this.#entry('modelMetrics', spec.name, spec.unit, ofModel);
      entry.value = milliseconds(ns);
      entry.requestId = sums.lastId;
    }
  }

  #handlerMetric({ model, name, unit, value, labels, requestIds }: HandlerMetric): void {
    if (this.#handlerLines++ >= MAX_HANDLER_LINES) return;
    const own = Object.entries(labels).map(([label, text]) => `,${plain(label)}:${plain(text)}`);
    const dimensions = `ModelName:${model},Level:Model${own.join('')}`;
    this.#line(
      'modelMetrics',
      { name: plain(name), unit: unit || 'Count', dimensions, value, requestId: requestIds },
      this.#now(),
    );
  }

  #entry(file: Entry['file'], name: string, unit: string, dimensions: string): Entry {
    const key = `${name} ${dimensions}`;
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { file, name, unit, dimensions, value: 0, requestId: undefined };
      this.#entries.set(key, entry);
    }
    return entry;
  }

  #write(): void {
    const at = this.#now();
    const { success, client, other } = this.#statuses;
    if (success > 0) this.host(families.Requests2XX, success);
    if (client > 0) this.host(families.Requests4XX, client);
    if (other > 0) this.host(families.Requests5XX, other);
    Object.assign(this.#statuses, { success: 0, client: 0, other: 0 });
    for (const ofModel of this.#sums.values()) for (const sums of ofModel.values()) this.#enter(sums);
    this.#sums.clear();
    for (const entry of this.#entries.values()) this.#line(entry.file, entry, at);
    this.#entries.clear();
    this.#handlerLines = 0;
  }

  #line(to: Entry['file'], { name, unit, dimensions, value, requestId }: Omit<Entry, 'file'>, at: number): void {
    const { files, hostname, format } = this.#options;
    const file: LogFile | undefined = files[to];
    if (file === undefined) return;
    if (format === 'json') {
      const fields = { time: new Date(at).toISOString(), log: to, name, unit, value, dimensions, hostname, requestId };
      file.write(`${JSON.stringify(fields)}\n`);
      return;
    }
    const amount = Number.isInteger(value) ? `${value}.0` : String(value);
    const request = requestId === undefined ? '' : `requestID:${plain(requestId)},`;
    const stamp = `timestamp:${Math.floor(at / 1000)}`;
    file.write(`${localTime(at)} - ${name}.${unit}:${amount}|#${dimensions}|#hostname:${hostname},${request}${stamp}\n`);
  }
}

/** Text without the characters that separate fields and lines. */
function plain(text: string): string {
  return text.replaceAll(/[|#\r\n]/g, '_');
}
