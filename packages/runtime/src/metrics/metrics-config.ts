import { readFileSync } from 'node:fs';
import { nearest } from '../config/suggest.js';
import { metricName } from './handler-metric-name.js';
import { families, type FamilySpec, type MetricType } from './names.js';
import { type Place, YamlLines } from './yaml-lines.js';

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
  /** Metrics of the server and of system_metrics_cmd that are wanted, by name; undefined when the file does not list them. */
  readonly server: ReadonlyMap<string, DeclaredMetric> | undefined;
  /** Handler metrics by name. */
  readonly model: ReadonlyMap<string, DeclaredMetric>;
  /** Bounds for our own histograms, from `onnxserve_metrics:`. */
  readonly buckets: ReadonlyMap<string, readonly number[]>;
}

export const noMetricsConfig: MetricsConfig = { server: undefined, model: new Map(), buckets: new Map() };

const types = ['counter', 'gauge', 'histogram'] as const;
const sections = ['ts_metrics', 'model_metrics', 'onnxserve_metrics'] as const;
/** `mode` stood in the files of TorchServe 0.7; metrics_mode of config.properties is what counts. */
const rootKeys: readonly string[] = [...sections, 'dimensions', 'mode'];
const entryKeys = ['name', 'unit', 'dimensions', 'buckets'];
const specs = new Map(Object.values<FamilySpec>(families).map((spec) => [spec.name, spec]));
/** Names of labels may be written with or without the host, which is always there. */
const hostLabel = /^hostname$/i;
/** The server's own families whose figures come from a model: TorchServe lists them among the metrics of models. */
const perModel: ReadonlySet<string> = new Set([families.HandlerTime.name, families.PredictionTime.name]);

/** @throws {Error} naming the file and what is wrong in it, a line each */
export function readMetricsConfig(file: string): MetricsConfig {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`metrics_config ${file} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  return parseMetricsConfig(text, file);
}

/** @throws {Error} `metrics_config FILE:LINE: KEY: what is wrong`, a line for each mistake */
export function parseMetricsConfig(text: string, file: string): MetricsConfig {
  const yaml = new YamlLines(text);
  const problems: string[] = [];
  const report = (line: number | undefined, what: string) =>
    problems.push(`metrics_config ${file}${line === undefined ? '' : `:${line}`}: ${what}`);
  const fail = () => {
    if (problems.length > 0) throw new Error(problems.join('\n'));
  };
  for (const { line, message } of yaml.errors) report(line, message);
  fail();
  const reader = new ConfigFile(yaml, report);
  const config = reader.read();
  fail();
  return config;
}

class ConfigFile {
  readonly #yaml: YamlLines;
  readonly #report: (line: number | undefined, what: string) => void;
  readonly #lines = new Map<string, { readonly key: string; readonly line: number | undefined }>();

  constructor(yaml: YamlLines, report: (line: number | undefined, what: string) => void) {
    this.#yaml = yaml;
    this.#report = report;
  }

  read(): MetricsConfig {
    const root = this.#yaml.value ?? {};
    if (!isRecord(root)) {
      this.#report(1, 'wanted a mapping with ts_metrics and model_metrics');
      return noMetricsConfig;
    }
    for (const key of Object.keys(root)) {
      // A place for anchors.
      if (!rootKeys.includes(key) && !key.startsWith('x-')) this.#unknown([key], key, rootKeys);
    }
    const { dimensions } = root;
    if (dimensions !== undefined && dimensions !== null && !isTexts(dimensions))
      this.#at(['dimensions'], 'must be a list of names');
    const server = this.#section(root, 'ts_metrics');
    const model = this.#section(root, 'model_metrics') ?? [];
    const own = this.#section(root, 'onnxserve_metrics') ?? [];
    return {
      server: server === undefined ? undefined : new Map(server.map((metric) => [metric.name, metric])),
      model: new Map(model.map((metric) => [metric.name, metric])),
      buckets: new Map(own.flatMap((metric) => (metric.buckets === undefined ? [] : [[metric.name, metric.buckets] as const]))),
    };
  }

  #section(root: Record<string, unknown>, key: (typeof sections)[number]): DeclaredMetric[] | undefined {
    const value = root[key];
    if (value === undefined || value === null) return undefined;
    if (!isRecord(value)) {
      this.#at([key], 'must hold lists named counter, gauge and histogram');
      return undefined;
    }
    for (const type of Object.keys(value)) {
      if (!(types as readonly string[]).includes(type)) this.#unknown([key, type], type, types, 'type of metric');
    }
    return types.flatMap((type) => {
      const list = value[type] ?? [];
      if (!Array.isArray(list)) {
        this.#at([key, type], 'must be a list');
        return [];
      }
      return list.flatMap((entry: unknown, at) => this.#entry(entry, type, [key, type, at]) ?? []);
    });
  }

  #entry(entry: unknown, type: MetricType, place: Place): DeclaredMetric | undefined {
    if (!isRecord(entry)) return this.#at(place, 'must be a mapping with name, unit and dimensions');
    for (const key of Object.keys(entry)) if (!entryKeys.includes(key)) this.#unknown([...place, key], key, entryKeys);
    const { name, unit, dimensions, buckets } = entry;
    if (typeof name !== 'string' || name === '') return this.#at([...place, 'name'], 'must be text');
    if (unit !== undefined && unit !== null && typeof unit === 'object') this.#at([...place, 'unit'], 'must be text');
    const labels = dimensions ?? [];
    if (!isTexts(labels)) return this.#at([...place, 'dimensions'], 'must be a list of names');
    this.#checkLabels(labels, [...place, 'dimensions']);
    if (buckets !== undefined && type !== 'histogram')
      this.#at([...place, 'buckets'], `only a histogram has buckets, "${name}" is a ${type}`);
    if (buckets !== undefined && !isBounds(buckets)) return this.#at([...place, 'buckets'], 'must be a list of growing numbers');
    const unitText = typeof unit === 'string' || typeof unit === 'number' ? String(unit) : '';
    const metric = { name, type, unit: unitText, dimensions: labels, buckets };
    this.#checkOnce(metric, place);
    this.#checkOwn(metric, place, dimensions !== undefined && dimensions !== null);
    return metric;
  }

  #checkLabels(labels: readonly string[], place: Place): void {
    const twice = labels.find((label, at) => labels.indexOf(label) !== at);
    if (twice !== undefined) this.#at(place, `names "${twice}" twice`);
    const bad = labels.find((label) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(label) || label.startsWith('__'));
    if (bad !== undefined) this.#at(place, `"${bad}" is no label name; use letters, digits and _`);
  }

  #checkOnce({ name }: DeclaredMetric, place: Place): void {
    const exported = metricName(name);
    const key = [...place, 'name'];
    const before = this.#lines.get(exported);
    const line = this.#yaml.lineOf(key);
    if (before === undefined) this.#lines.set(exported, { key: keyText(place), line });
    else
      this.#at(
        key,
        `"${name}" is declared twice, first as ${before.key}${before.line === undefined ? '' : ` in line ${before.line}`}`,
      );
  }

  /** The server's families have their types and labels; a file may choose among them, not change them. */
  #checkOwn({ name, type, dimensions, buckets }: DeclaredMetric, place: Place, labelled: boolean): void {
    const section = place[0];
    const spec = specs.get(name);
    if (section === 'onnxserve_metrics') {
      if (spec?.group !== 'own' || spec.type !== 'histogram') {
        const own = [...specs.values()].filter((it) => it.group === 'own' && it.type === 'histogram').map((it) => it.name);
        this.#at([...place, 'name'], `"${name}" is no histogram of this server${hint(name, own)}`);
      } else if (buckets === undefined) this.#at(place, `"${name}" needs buckets, the only thing that can be set here`);
      else if (labelled) this.#sameLabels(spec, dimensions, place);
      return;
    }
    if (spec === undefined) return;
    if (spec.group === 'own') {
      this.#at(
        [...place, 'name'],
        `"${name}" is always there; its bounds are set under onnxserve_metrics, and nothing else of it`,
      );
      return;
    }
    if ((section === 'model_metrics') !== perModel.has(name)) {
      const where = perModel.has(name) ? 'model_metrics' : 'ts_metrics';
      this.#at([...place, 'name'], `"${name}" is a metric of the server and belongs under ${where}`);
      return;
    }
    if (spec.type !== type) this.#at([...place, 'name'], `"${name}" is a ${spec.type} of this server and cannot be a ${type}`);
    if (labelled) this.#sameLabels(spec, dimensions, place);
  }

  #sameLabels({ name, labels }: FamilySpec, given: readonly string[], place: Place): void {
    const bare = (list: readonly string[]) =>
      list
        .filter((label) => !hostLabel.test(label))
        .sort()
        .join(', ');
    if (bare(labels) !== bare(given))
      this.#at(
        [...place, 'dimensions'],
        `the dimensions of "${name}" are ${labels.join(', ')} and cannot be ${given.join(', ') || 'none'}`,
      );
  }

  #unknown(place: Place, name: string, known: readonly string[], what = 'key'): void {
    this.#at(place, `there is no ${what} "${name}"${hint(name, known)}; known are ${known.join(', ')}`);
  }

  #at(place: Place, what: string): undefined {
    this.#report(this.#yaml.lineOf(place), `${keyText(place)}: ${what}`);
    return undefined;
  }
}

function keyText(place: Place): string {
  return place.map((part, at) => (typeof part === 'number' ? `[${part}]` : at === 0 ? part : `.${part}`)).join('');
}

function hint(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant === undefined ? '' : `, did you mean ${meant}?`;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((it) => typeof it === 'string');
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
