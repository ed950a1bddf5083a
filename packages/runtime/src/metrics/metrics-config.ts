import { readFileSync } from 'node:fs';
import { LineCounter, parseDocument } from 'yaml';
import type { MetricType } from './names.js';

export interface DeclaredMetric {
  readonly name: string;
  readonly type: MetricType;
  readonly unit: string;
  readonly dimensions: readonly string[];
  /** Upper bounds of a histogram. */
  readonly buckets: readonly number[] | undefined;
}

/** A `metrics_config` file. */
export interface MetricsConfig {
  /** TorchServe's families that stay; undefined when the file does not list them. */
  readonly server: ReadonlySet<string> | undefined;
  /** Handler metrics by name. */
  readonly model: ReadonlyMap<string, DeclaredMetric>;
  /** Bounds for our own histograms, from `onnxserve_metrics:`. */
  readonly buckets: ReadonlyMap<string, readonly number[]>;
}

export const noMetricsConfig: MetricsConfig = { server: undefined, model: new Map(), buckets: new Map() };

const types = ['counter', 'gauge', 'histogram'] as const;

/** @throws {Error} naming the file and what is wrong in it */
export function readMetricsConfig(file: string): MetricsConfig {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`metrics_config ${file} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  return parseMetricsConfig(text, file);
}

export function parseMetricsConfig(text: string, file: string): MetricsConfig {
  const document = parseDocument(text, { lineCounter: new LineCounter(), merge: true });
  const broken = document.errors[0];
  if (broken !== undefined) throw new Error(`metrics_config ${file}: ${broken.message}`, { cause: broken });
  const root: unknown = document.toJS() ?? {};
  if (!isRecord(root)) throw new Error(`metrics_config ${file}: wanted a mapping with ts_metrics and model_metrics`);
  const server = section(root, 'ts_metrics', file);
  const model = section(root, 'model_metrics', file) ?? [];
  const own = section(root, 'onnxserve_metrics', file) ?? [];
  return {
    server: server === undefined ? undefined : new Set(server.map((metric) => metric.name)),
    model: new Map(model.map((metric) => [metric.name, metric])),
    buckets: new Map(own.flatMap((metric) => (metric.buckets === undefined ? [] : [[metric.name, metric.buckets] as const]))),
  };
}

function section(root: Record<string, unknown>, key: string, file: string): DeclaredMetric[] | undefined {
  const value = root[key];
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) throw new Error(`metrics_config ${file}: ${key} must hold counter, gauge and histogram lists`);
  return types.flatMap((type) => {
    const list = value[type] ?? [];
    if (!Array.isArray(list)) throw new Error(`metrics_config ${file}: ${key}.${type} must be a list`);
    return list.map((entry: unknown, at) => declared(entry, type, `metrics_config ${file}: ${key}.${type}[${at}]`));
  });
}

function declared(entry: unknown, type: MetricType, where: string): DeclaredMetric {
  if (!isRecord(entry)) throw new Error(`${where} must be a mapping with name, unit and dimensions`);
  const { name, unit = '', dimensions = [], buckets } = entry;
  if (typeof name !== 'string' || name === '') throw new Error(`${where}.name must be text`);
  if (!Array.isArray(dimensions) || !dimensions.every((it) => typeof it === 'string'))
    throw new Error(`${where}.dimensions must be a list of names`);
  if (buckets !== undefined && !isBounds(buckets)) throw new Error(`${where}.buckets must be a list of growing numbers`);
  return { name, type, unit: String(unit), dimensions, buckets };
}

function isBounds(value: unknown): value is number[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((it, at) => typeof it === 'number' && Number.isFinite(it) && (at === 0 || it > (value[at - 1] as number)))
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
