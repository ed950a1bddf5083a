import type { OnnxOptions } from './model-config.js';
import { onnxKeys, type OnnxKeySpec, refusedOnnxKeys } from './onnx-keys.js';
import { nearest, plain } from './suggest.js';
import type { Entry, Section } from './yaml-section.js';

export type ReportAt = (severity: 'error' | 'warning' | 'info', key: string, line: number, message: string) => void;

type Read = { readonly value: unknown } | { readonly expected: string };

const providerNames: ReadonlyMap<string, string> = new Map([
  ['cpu', 'cpu'],
  ['cpuexecutionprovider', 'cpu'],
  ['cuda', 'cuda'],
  ['cudaexecutionprovider', 'cuda'],
]);

/** Reads the `onnx:` section strictly: whatever the engine would not honour is an error with its name. */
export function parseOnnxOptions(section: Section, modelName: string, report: ReportAt): OnnxOptions {
  const options: Record<string, unknown> = {};
  for (const { key, line } of section.repeated) report('error', `onnx.${key}`, line, `onnx.${key} is set twice`);
  for (const entry of section.entries) {
    const path = `onnx.${entry.key}`;
    const spec = onnxKeys.find(({ name }) => name === entry.key);
    if (!spec) {
      report('error', path, entry.line, explainUnknown(path, entry.key));
      continue;
    }
    const read = readOption(spec, entry);
    if ('value' in read) options[entry.key] = read.value;
    else report('error', path, entry.line, `${path} is ${JSON.stringify(entry.value)}; ${read.expected}`);
  }
  if (options['enableProfiling'] === true && options['profileFilePrefix'] === undefined)
    options['profileFilePrefix'] = `${modelName.replaceAll(/[^\w.-]/g, '_')}_profile`;
  return options;
}

function explainUnknown(path: string, key: string): string {
  for (const [name, why] of refusedOnnxKeys) if (plain(name) === plain(key)) return `${path} is refused: ${why}`;
  const meant = nearest(
    key,
    onnxKeys.map(({ name }) => name),
  );
  if (meant !== undefined) return `${path} is no option; did you mean onnx.${meant}?`;
  return `${path} is no option; known are ${onnxKeys.map(({ name }) => name).join(', ')}`;
}

function readOption(spec: OnnxKeySpec, { value, section }: Entry): Read {
  const kind = spec.value;
  switch (kind.kind) {
    case 'boolean':
      return typeof value === 'boolean' ? { value } : { expected: 'it must be true or false' };
    case 'text':
      return typeof value === 'string' && value !== '' ? { value } : { expected: 'it must be a text' };
    case 'integer':
      return typeof value === 'number' && Number.isInteger(value) && value >= kind.min && value <= kind.max
        ? { value }
        : { expected: `allowed is a whole number ${kind.min} to ${kind.max}` };
    case 'choice':
      return typeof value === 'string' && kind.choices.includes(value)
        ? { value }
        : { expected: `it must be one of ${kind.choices.join(', ')}` };
    case 'file':
      return isInside(value) ? { value } : { expected: 'it must be a file inside the archive, relative to its root' };
    case 'files': {
      const isFiles = section?.entries.every((entry) => isInside(entry.value)) ?? false;
      return isFiles ? { value } : { expected: 'it must map names to files inside the archive' };
    }
    case 'entries':
      return readEntries(section);
    case 'providers':
      break;
  }
  return readProviders(value);
}

function isInside(value: unknown): boolean {
  if (typeof value !== 'string' || value === '' || /^(?:[/\\]|[a-z]:)/i.test(value)) return false;
  return !value.split(/[/\\]/).includes('..');
}

function readEntries(section: Section | undefined): Read {
  const expected = 'it must map entries such as session.intra_op.allow_spinning to texts or numbers';
  if (!section) return { expected };
  const entries: Array<[string, string]> = [];
  for (const { key, value } of section.entries) {
    if (!key.includes('.') || !['string', 'number', 'boolean'].includes(typeof value)) return { expected };
    entries.push([key, typeof value === 'boolean' ? String(Number(value)) : String(value)]);
  }
  return { value: Object.fromEntries(entries) };
}

function readProviders(value: unknown): Read {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  const providers = names.map((name) => (typeof name === 'string' ? providerNames.get(name.toLowerCase()) : undefined));
  if (providers.length === 0 || providers.includes(undefined))
    return { expected: 'providers this engine can run are cpu and cuda; an unknown one would silently become the CPU' };
  return { value: [...new Set(providers)] };
}
