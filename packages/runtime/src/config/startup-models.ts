import type { LoadEntry, LoadModels } from './load-models.js';
import type { ConfigProblem, StartupModelSettings } from './server-config.js';
import { nearest } from './suggest.js';

export type StartupModels = Readonly<Record<string, Readonly<Record<string, StartupModelSettings>>>>;

type Report = (severity: ConfigProblem['severity'], key: string, message: string) => void;

const integers = ['minWorkers', 'maxWorkers', 'batchSize', 'maxBatchDelay', 'responseTimeout', 'startupTimeout'] as const;
const texts = ['marName', 'runtimeType', 'handler'] as const;
const ignored = ['parallelLevel', 'parallelType'];
const known = [...integers, ...texts, 'defaultVersion', 'batchRelease', ...ignored];

interface JsonRules {
  /** 0: a snapshot of a model scaled to nothing. */
  readonly leastWorkers: 0 | 1;
  readonly maxWorkersLimit: number;
}

/** Reads the JSON of `models`. Every mistake is reported with its path, as `models.name.version.batchSize`. */
export function readStartupModels(key: string, text: string, rules: JsonRules, report: Report): StartupModels {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    report('error', key, `${key} is no JSON: ${(error as Error).message}`);
    return {};
  }
  return readModelsObject(key, parsed, rules, report);
}

/** Reads the JSON of `model_snapshot`, whose `models` has the form of the key `models`. */
export function readSnapshot(text: string, maxWorkersLimit: number, report: Report): StartupModels {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    report('error', 'model_snapshot', `model_snapshot is no JSON: ${(error as Error).message}`);
    return {};
  }
  if (!isObject(parsed) || !isObject(parsed['models'])) {
    report('error', 'model_snapshot', 'model_snapshot must be an object with `models`');
    return {};
  }
  const models = readModelsObject('model_snapshot.models', parsed['models'], { leastWorkers: 0, maxWorkersLimit }, report);
  for (const [name, versions] of Object.entries(models))
    for (const [version, settings] of Object.entries(versions))
      if (settings.marName === undefined)
        report(
          'error',
          'model_snapshot',
          `model_snapshot.models.${name}.${version}.marName is missing: nothing says what to load`,
        );
  return models;
}

function readModelsObject(key: string, parsed: unknown, rules: JsonRules, report: Report): StartupModels {
  if (!isObject(parsed)) {
    report('error', key, `${key} must be an object {name: {version: {...}}}`);
    return {};
  }
  const models: Array<[string, Record<string, StartupModelSettings>]> = [];
  for (const [name, versions] of Object.entries(parsed)) {
    if (!isObject(versions)) {
      report('error', key, `${key}.${name} must be an object {version: {...}}`);
      continue;
    }
    const read: Array<[string, StartupModelSettings]> = [];
    for (const [version, settings] of Object.entries(versions)) {
      const path = `${key}.${name}.${version}`;
      if (isObject(settings)) read.push([version, readSettings(path, settings, rules, report)]);
      else report('error', path, `${path} must be an object; ${name} needs a version, as {"${name}": {"1.0": {...}}}`);
    }
    if (read.filter(([, settings]) => settings.defaultVersion).length > 1)
      report('error', `${key}.${name}`, `${key}.${name} has more than one defaultVersion`);
    models.push([name, Object.fromEntries(read)]);
  }
  return Object.fromEntries(models);
}

function readSettings(path: string, settings: Record<string, unknown>, rules: JsonRules, report: Report): StartupModelSettings {
  const result: { -readonly [Key in keyof StartupModelSettings]: StartupModelSettings[Key] } = {};
  for (const name of integers) {
    const value = settings[name];
    if (value === undefined) continue;
    const isWorkers = name === 'minWorkers' || name === 'maxWorkers';
    const least = isWorkers || name === 'maxBatchDelay' ? rules.leastWorkers : 1;
    const most = isWorkers ? rules.maxWorkersLimit : 2_147_483_647;
    const read = typeof value === 'string' && /^[+-]?\d+$/.test(value) ? Number(value) : value;
    if (typeof read === 'number' && Number.isInteger(read) && read >= least && read <= most) result[name] = read;
    else {
      const setting = isWorkers && typeof read === 'number' && read > most ? ' (max_workers_limit)' : '';
      report(
        'error',
        `${path}.${name}`,
        `${path}.${name} is ${JSON.stringify(value)}; allowed is a whole number ${least} to ${most}${setting}`,
      );
    }
  }
  for (const name of texts) {
    const value = settings[name];
    if (typeof value === 'string' && value !== '') result[name] = value;
    else if (value !== undefined)
      report('error', `${path}.${name}`, `${path}.${name} is ${JSON.stringify(value)}; it must be a text`);
  }
  const isDefault = settings['defaultVersion'];
  if (typeof isDefault === 'boolean') result.defaultVersion = isDefault;
  else if (isDefault !== undefined)
    report('error', `${path}.defaultVersion`, `${path}.defaultVersion is ${JSON.stringify(isDefault)}; it must be true or false`);
  if (settings['batchRelease'] === 'adaptive') result.adaptive = true;
  if (result.minWorkers !== undefined && result.maxWorkers !== undefined && result.minWorkers > result.maxWorkers)
    report(
      'error',
      `${path}.maxWorkers`,
      `${path}.maxWorkers is ${result.maxWorkers}, less than minWorkers, which is ${result.minWorkers}`,
    );
  for (const name of Object.keys(settings)) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    report(
      'warning',
      `${path}.${name}`,
      `${path}.${name} is unknown and ignored${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    );
  }
  return result;
}

/** Everything that a JSON of models names, as entries to load. A missing marName stands for `name.mar`. */
export function entriesOf(models: StartupModels): LoadEntry[] {
  return Object.entries(models).flatMap(([name, versions]) => {
    const archives = Object.values(versions).map((settings) => settings.marName ?? `${name}.mar`);
    return [...new Set(archives)].map((url) => ({ name, url }));
  });
}

/** The one key of `models` whose marName is this archive; undefined when none or several name it. */
export function modelNameForArchive(models: StartupModels, archive: string): string | undefined {
  const names = Object.entries(models).flatMap(([name, versions]) =>
    Object.values(versions).some((settings) => settings.marName === archive) ? [name] : [],
  );
  return names.length === 1 ? names[0] : undefined;
}

/** Gives entries the name that `models` has for their archive, and reports where the two do not fit. */
export function matchModels(load: LoadModels, models: StartupModels, report: Report): LoadModels {
  if (load === 'all') return load;
  const entries = load.map((entry) =>
    entry.name === undefined ? { ...entry, name: modelNameForArchive(models, entry.url) } : entry,
  );
  for (const [name, versions] of Object.entries(models)) {
    const mine = entries.filter((entry) => (entry.name ?? stem(entry.url)) === name);
    if (mine.length === 0)
      report(
        'warning',
        'models',
        `models.${name} is set, but load_models does not name it, so it is not loaded; add ${name} to load_models`,
      );
    const archives = Object.values(versions).flatMap((settings) => settings.marName ?? []);
    for (const entry of mine)
      if (archives.length > 0 && !archives.includes(entry.url))
        report(
          'error',
          'models',
          `load_models loads ${name} from ${entry.url}, but models.${name} has marName ${archives.join(', ')}`,
        );
  }
  return entries;
}

function stem(url: string): string {
  return url.replace(/^.*[/\\]/, '').replace(/\.(?:mar|model|tar\.gz|tgz|onnx|zip)$/i, '');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
