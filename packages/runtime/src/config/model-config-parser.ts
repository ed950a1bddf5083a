import type { ModelConfig, OnnxOptions } from './model-config.js';
import { modelKeys, type ModelKeySpec } from './model-keys.js';
import { parseOnnxOptions, type ReportAt } from './onnx-options-parser.js';
import type { ConfigProblem } from './server-config.js';
import { nearest } from './suggest.js';
import { type Entry, parseYamlSection, type Section } from './yaml-section.js';

export interface ParsedModelConfig {
  readonly config: ModelConfig;
  /** `error`: the model must not be loaded with it. */
  readonly problems: readonly ConfigProblem[];
}

type Read = { readonly value: unknown } | { readonly expected: string };

const byName = new Map(modelKeys.map((spec) => [spec.name, spec]));
const names = modelKeys.map(({ name }) => name);

/**
 * Reads `model-config.yaml`. Settings may stand at the top, under `models: NAME:` or under `NAME:`. A setting of the wrong type is
 * reported and left out; a file that cannot be parsed is reported and counts as empty, as in TorchServe. `onnx:` is strict.
 */
export function parseModelConfig(text: string, fileLabel: string, modelName: string): ParsedModelConfig {
  const problems: ConfigProblem[] = [];
  const report: ReportAt = (severity, key, line, message) =>
    problems.push({ severity, key, where: `${fileLabel}:${line}`, message });
  const yaml = parseYamlSection(text);
  if (!yaml.ok) {
    const where = yaml.line === undefined ? fileLabel : `${fileLabel}:${yaml.line}`;
    const message = `${fileLabel} cannot be read and counts as empty: ${yaml.message}`;
    return { config: { onnx: {}, free: {} }, problems: [{ severity: 'warning', key: fileLabel, where, message }] };
  }
  for (const { key, line } of yaml.section.repeated) report('warning', key, line, `${key} is set twice; the last one counts`);
  return { config: readConfig(flatten(yaml.section, modelName, report), modelName, report), problems };
}

function readConfig(entries: readonly Entry[], modelName: string, report: ReportAt): ModelConfig {
  const settings: Record<string, unknown> = {};
  const free: Array<[string, unknown]> = [];
  const lines = new Map<string, number>();
  let onnx: OnnxOptions = {};
  for (const entry of entries) {
    const { key, value, line, section } = entry;
    const spec = byName.get(key);
    if (!spec) {
      const meant = nearest(key, names);
      if (meant !== undefined)
        report('warning', key, line, `${key} is no setting and only reaches the handler; did you mean ${meant}?`);
      free.push([key, value]);
      continue;
    }
    if (spec.status === 'pointless') report('info', key, line, `${key} is accepted and has no effect. ${spec.doc}`);
    if (key === 'onnx') {
      if (section) onnx = parseOnnxOptions(section, modelName, report);
      else if (value !== null) report('error', key, line, `onnx is ${JSON.stringify(value)}; it must be a mapping of options`);
      continue;
    }
    if (spec.value.kind === 'section' || key === 'asyncCommunication') {
      free.push([key, value]);
      continue;
    }
    const read = readSetting(spec, entry, report);
    if (!('value' in read)) report('warning', key, line, `${key} is ${JSON.stringify(value)} and is ignored; ${read.expected}`);
    else if (read.value !== undefined) settings[key] = read.value;
    lines.set(key, line);
  }
  checkWorkers(settings, lines, report);
  checkDevice(settings, onnx, lines, report);
  return { ...settings, onnx, free: Object.fromEntries(free) };
}

/** The entries that apply to the model: those at the top, replaced by those of its own section. */
function flatten(root: Section, modelName: string, report: ReportAt): Entry[] {
  const ownName = root.entries.find(({ key, section }) => key === modelName && !byName.has(key) && hasSetting(section));
  const models = root.entries.find(({ key, section }) => key === 'models' && isModels(section));
  const nested = models?.section?.entries ?? [];
  const only = nested.length === 1 ? nested[0] : undefined;
  const listed = nested.find(({ key }) => key === modelName) ?? only;
  if (models && !listed)
    report('warning', 'models', models.line, `models has no section for ${modelName}, so none of its sections is used`);
  else if (listed && listed.key !== modelName)
    report(
      'warning',
      `models.${listed.key}`,
      listed.line,
      `models.${listed.key} is used for ${modelName}, since it is the only section`,
    );
  const merged = new Map<string, Entry>();
  for (const entry of root.entries) if (entry !== ownName && entry !== models) merged.set(entry.key, entry);
  for (const source of [listed, ownName]) {
    for (const { key, line } of source?.section?.repeated ?? [])
      report('warning', key, line, `${key} is set twice; the last one counts`);
    for (const entry of source?.section?.entries ?? []) merged.set(entry.key, entry);
  }
  return [...merged.values()];
}

function hasSetting(section: Section | undefined): boolean {
  return section?.entries.some(({ key }) => byName.has(key)) ?? false;
}

/** A handler may have a key `models` of its own, so only one that holds settings of models is ours. */
function isModels(section: Section | undefined): boolean {
  return section?.entries.some((entry) => hasSetting(entry.section)) ?? false;
}

function readSetting(spec: ModelKeySpec, { key, value, line }: Entry, report: ReportAt): Read {
  const kind = spec.value;
  switch (kind.kind) {
    case 'integer':
      if (typeof value !== 'number' || !Number.isInteger(value)) return { expected: 'it must be a whole number' };
      if (value > kind.max) return { expected: `the most is ${kind.max}` };
      if (value >= kind.min) return { value };
      // TorchServe writes 0 where nothing is set.
      if (value === 0 && kind.below === 'ignore') return { value: undefined };
      if (kind.below === 'ignore') return { expected: `the least is ${kind.min}` };
      report('warning', key, line, `${key} is ${value} and counts as ${kind.min}, the least`);
      return { value: kind.min };
    case 'boolean':
      return typeof value === 'boolean' ? { value } : { expected: 'it must be true or false' };
    case 'choice': {
      const { choices } = kind;
      const known = typeof value === 'string' && choices.includes(value);
      return known ? { value } : { expected: `it must be one of ${choices.join(', ')}` };
    }
    case 'text':
      return typeof value === 'string' && value !== '' ? { value } : { expected: 'it must be a text' };
    case 'device': {
      if (typeof value !== 'string') return { expected: 'it must be cpu or gpu' };
      const device = value.toLowerCase();
      if (device === 'cpu' || device === 'gpu') return { value: device };
      report('error', key, line, `deviceType is ${JSON.stringify(value)}; it must be cpu or gpu`);
      return { value: undefined };
    }
    case 'devices': {
      const isIds = Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id) && id >= 0);
      return isIds ? { value } : { expected: 'it must be a list of GPU numbers, such as [0, 1]' };
    }
    case 'section':
      break;
  }
  throw new TypeError(`${key} is a section`);
}

function checkWorkers(settings: Record<string, unknown>, lines: ReadonlyMap<string, number>, report: ReportAt): void {
  const { minWorkers, maxWorkers } = settings;
  if (typeof minWorkers === 'number' && typeof maxWorkers === 'number' && maxWorkers < minWorkers) {
    const message = `maxWorkers is ${maxWorkers}, less than minWorkers, which is ${minWorkers}; both are ignored`;
    report('warning', 'maxWorkers', lines.get('maxWorkers') ?? 1, message);
  } else if (typeof minWorkers === 'number' && maxWorkers === undefined) {
    settings['maxWorkers'] = minWorkers;
    return;
  } else if (typeof maxWorkers === 'number' && minWorkers === undefined) {
    report('warning', 'maxWorkers', lines.get('maxWorkers') ?? 1, 'maxWorkers has no effect without minWorkers');
  } else return;
  delete settings['minWorkers'];
  delete settings['maxWorkers'];
}

function checkDevice(
  settings: Record<string, unknown>,
  onnx: OnnxOptions,
  lines: ReadonlyMap<string, number>,
  report: ReportAt,
): void {
  const line = lines.get('deviceType') ?? lines.get('deviceIds') ?? 1;
  const device = settings['deviceType'];
  const usesCuda = onnx.providers?.includes('cuda');
  if (device === 'gpu' && usesCuda === false)
    report('error', 'deviceType', line, 'deviceType is gpu, but onnx.providers has no cuda; drop one of the two');
  if (device === 'cpu' && usesCuda)
    report('error', 'deviceType', line, 'deviceType is cpu, but onnx.providers has cuda; drop one of the two');
  if (settings['deviceIds'] !== undefined && device !== 'gpu' && !usesCuda)
    report('warning', 'deviceIds', lines.get('deviceIds') ?? 1, 'deviceIds has no effect without deviceType: gpu');
}
