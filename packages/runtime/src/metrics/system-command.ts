import type { MetricsConfig } from './metrics-config.js';
import { metricName } from './handler-metric-name.js';
import { ScalarFamily, type Scalar } from './family.js';
import { families, type FamilyKey, type FamilySpec } from './names.js';
import type { MetricRegistry } from './registry.js';
import { firstLine, runTool } from './run-tool.js';

/** A line of TorchServe's metric format. */
export interface MetricLine {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  /** Without the host, in the order of the line. */
  readonly dimensions: ReadonlyArray<readonly [string, string]>;
  readonly hostname: string | undefined;
}

const systemFamilies: ReadonlyMap<string, FamilyKey> = new Map(
  (
    [
      'CPUUtilization',
      'MemoryUsed',
      'MemoryAvailable',
      'MemoryUtilization',
      'DiskUsage',
      'DiskUtilization',
      'DiskAvailable',
      'GPUMemoryUtilization',
      'GPUMemoryUsed',
      'GPUUtilization',
    ] as const
  ).map((key) => [families[key].name, key]),
);
const TIMEOUT_MS = 30_000;
/** What a program may make of its own. */
const MAX_FAMILIES = 200;
const MAX_SERIES = 1000;

export interface SystemCommandOptions {
  /** As configured: a program and its arguments, words in quotes held together. */
  readonly command: string;
  readonly registry: MetricRegistry;
  readonly hostname: string;
  readonly config: MetricsConfig;
  /** Told each kind of trouble once. */
  readonly warn: (sentence: string) => void;
  readonly collected?: (line: MetricLine) => void;
  readonly timeoutMs?: number;
}

/** Metrics that the program of system_metrics_cmd prints, instead of those that the server collects itself. */
export class SystemCommand {
  readonly #options: SystemCommandOptions;
  readonly #words: readonly string[];
  readonly #own = new Map<string, { readonly family: ScalarFamily; readonly labels: string }>();
  readonly #told = new Set<string>();
  #shown = new Map<string, () => void>();

  constructor(options: SystemCommandOptions) {
    this.#options = options;
    const words = wordsOf(options.command);
    // TorchServe runs the file with Python.
    this.#words = words[0]?.endsWith('.py') === true ? ['python3', ...words] : words;
  }

  /** Runs the program once. Never throws. */
  async collect(signal: AbortSignal): Promise<void> {
    const [program = '', ...args] = this.#words;
    const outcome = await runTool(program, args, { timeoutMs: this.#options.timeoutMs ?? TIMEOUT_MS, signal });
    if (signal.aborted) return;
    const before = this.#shown;
    this.#shown = new Map();
    switch (outcome.state) {
      case 'absent':
        this.#warnOnce('absent', `there is no program "${program}"`);
        break;
      case 'failed':
        this.#warnOnce('failed', outcome.why);
        break;
      case 'ended':
        if (outcome.code !== 0) {
          const how = outcome.code === null ? 'it was killed' : `it exited with ${outcome.code}`;
          this.#warnOnce('exit', `${how}: ${firstLine(outcome.stderr) || firstLine(outcome.stdout)}`);
        } else for (const line of metricsPart(outcome.stdout)) this.#take(line);
        break;
      default: {
        const never: never = outcome;
        throw new TypeError(`unknown outcome ${String(never)}`);
      }
    }
    // No value is better than an old one.
    for (const [key, remove] of before) if (!this.#shown.has(key)) remove();
  }

  #take(text: string): void {
    const line = parseMetricLine(text);
    if (line === undefined) return this.#warnOnce('line', `it printed a line that is no metric: ${text.slice(0, 200)}`);
    const known = systemFamilies.get(line.name);
    const { config, collected } = this.#options;
    if (config.server !== undefined && !config.server.has(line.name))
      return this.#warnOnce(`listed ${line.name}`, `"${line.name}" is not in the ts_metrics of the metrics_config file`);
    const made = known === undefined ? this.#ownSeries(line) : this.#knownSeries(known, line);
    if (made === undefined) return;
    const { series, counts, key, remove } = made;
    if (counts) series.add(line.value);
    else series.set(line.value);
    // What counts stays, whether it grew now or not.
    if (!counts) this.#shown.set(key, remove);
    collected?.(line);
  }

  #knownSeries(known: FamilyKey, line: MetricLine): Made | undefined {
    const spec: FamilySpec = families[known];
    const family = this.#options.registry.built[known] as ScalarFamily;
    const given = new Map(line.dimensions);
    const values = spec.labels.map((label) => (label === 'Hostname' ? this.#host(line) : given.get(label)));
    if (given.size !== spec.labels.length - 1 || !isComplete(values)) return this.#wrongLabels(line, spec.labels);
    return { series: family.series(...values), counts: false, ...keyed(family, values) };
  }

  #ownSeries(line: MetricLine): Made | undefined {
    const name = metricName(line.name);
    const labels = line.dimensions.map(([label]) => metricName(label));
    const found = this.#own.get(name) ?? this.#define(name, labels, line);
    if (found === undefined) return undefined;
    if (found.labels !== [...labels].sort().join()) return this.#wrongLabels(line, found.family.labelNames);
    const given = new Map(line.dimensions.map(([label, value]) => [metricName(label), value]));
    const values = found.family.labelNames.map((label) => (label === 'Hostname' ? this.#host(line) : (given.get(label) ?? '')));
    const counts = found.family.type === 'counter';
    const before = this.#seriesCount();
    const series = found.family.series(...values);
    if (this.#seriesCount() > before && before >= MAX_SERIES) {
      found.family.remove(...values);
      this.#warnOnce('series', `it has more than ${MAX_SERIES} series of its own; the rest is left out`);
      return undefined;
    }
    return { series, counts, ...keyed(found.family, values) };
  }

  #define(name: string, labels: readonly string[], line: MetricLine) {
    const { registry, config } = this.#options;
    const declared = config.server?.get(line.name);
    const type = declared?.type ?? 'gauge';
    const wanted = declared?.dimensions.filter((label) => label !== 'Hostname');
    const complaint =
      this.#own.size >= MAX_FAMILIES
        ? `it has more than ${MAX_FAMILIES} metrics of its own; the rest is left out`
        : type === 'histogram'
          ? `"${line.name}" cannot be a histogram`
          : wanted !== undefined && [...wanted].sort().join() !== [...labels].sort().join()
            ? `the dimensions of "${line.name}" are ${labels.join(', ') || 'none'} and not those of the metrics_config file, ${wanted.join(', ')}`
            : clashText(name, registry.clash(name, type));
    if (complaint !== undefined) {
      this.#warnOnce(this.#own.size >= MAX_FAMILIES ? 'families' : `define ${name}`, complaint);
      return undefined;
    }
    const help = `From system_metrics_cmd, unit: ${declared?.unit || line.unit}.`;
    const family = new ScalarFamily({ name, type, help, labels: [...labels.filter((it) => it !== 'Hostname'), 'Hostname'] });
    registry.add(family);
    const made = { family, labels: [...labels].sort().join() };
    this.#own.set(name, made);
    return made;
  }

  #seriesCount(): number {
    let count = 0;
    for (const { family } of this.#own.values()) count += family.size;
    return count;
  }

  #host({ hostname }: MetricLine): string {
    return hostname ?? this.#options.hostname;
  }

  #wrongLabels({ name, dimensions }: MetricLine, labels: readonly string[]): undefined {
    const given = dimensions.map(([label]) => label).join(', ') || 'none';
    const wanted = labels.filter((label) => label !== 'Hostname').join(', ') || 'none';
    this.#warnOnce(`labels ${name}`, `the dimensions of "${name}" are ${given} and must be ${wanted}`);
    return undefined;
  }

  #warnOnce(kind: string, why: string): void {
    if (this.#told.has(kind) || this.#told.size >= 100) return;
    this.#told.add(kind);
    this.#options.warn(`system_metrics_cmd=${this.#options.command}: ${why}.`);
  }
}

interface Made {
  readonly series: Scalar;
  readonly counts: boolean;
  readonly key: string;
  readonly remove: () => void;
}

function keyed(family: ScalarFamily, values: readonly string[]): Pick<Made, 'key' | 'remove'> {
  return { key: JSON.stringify([family.name, ...values]), remove: () => family.remove(...values) };
}

function isComplete(values: ReadonlyArray<string | undefined>): values is string[] {
  return values.every((value) => value !== undefined);
}

function clashText(name: string, owner: string | undefined): string | undefined {
  return owner === undefined ? undefined : `the name "${name}" clashes with ${owner}`;
}

/** Metrics come first; after an empty line TorchServe's collector tells the memory of processes. */
function metricsPart(output: string): string[] {
  const lines = output.split(/\r?\n/);
  const end = lines.findIndex((line, at) => line.trim() === '' && at > 0);
  return lines.slice(0, end < 0 ? lines.length : end).filter((line) => line.trim() !== '');
}

/** `CPUUtilization.Percent:12.5|#Level:Host|#hostname:box,timestamp:1714564800`. */
export function parseMetricLine(text: string): MetricLine | undefined {
  const found = /^\s*([^.:|]+)\.([^.:|]+):([+-]?[0-9.]+(?:[eE][+-]?\d+)?)\|#([^|]*)(?:\|#hostname:([^,|]*)[^|]*)?(?:\|.*)?$/.exec(
    text,
  );
  const [, name = '', unit = '', amount = '', listed = '', host] = found ?? [];
  const value = Number(amount);
  if (found === null || !Number.isFinite(value)) return undefined;
  const dimensions: Array<readonly [string, string]> = [];
  for (const part of listed.split(',').filter((it) => it !== '')) {
    const at = part.indexOf(':');
    if (at <= 0) return undefined;
    dimensions.push([part.slice(0, at).trim(), part.slice(at + 1).trim()]);
  }
  return {
    name: name.trim(),
    unit: unit.trim(),
    value,
    dimensions,
    hostname: host === undefined || host === '' ? undefined : host,
  };
}

/** Words of a command line; quotes hold a word together, there is no other syntax. */
export function wordsOf(command: string): string[] {
  const words: string[] = [];
  for (const match of command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g))
    words.push(match[0].replaceAll(/"([^"]*)"|'([^']*)'/g, (_all, double?: string, single?: string) => double ?? single ?? ''));
  return words;
}
