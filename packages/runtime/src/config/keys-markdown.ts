import type { KeySpec, ValueKind } from './key-spec.js';
import { environmentName, serverKeys } from './keys.js';
import { modelKeys } from './model-keys.js';
import { onnxKeys, refusedOnnxKeys } from './onnx-keys.js';

/** The tables of docs/configuration.md by section name, in Markdown. */
export function documentationTables(): ReadonlyMap<string, string> {
  const byStatus = (status: KeySpec['status']) => serverKeys.filter((spec) => spec.status === status);
  return new Map([
    [
      'server-keys',
      table(
        ['Key', 'Default', 'Allowed', 'Meaning', 'From'],
        byStatus('used').map((spec) => [
          `\`${spec.name}\``,
          spec.defaultDoc ?? (spec.default === undefined ? 'none' : `\`${spec.default}\``),
          allowed(spec),
          spec.environment ? spec.doc : `${spec.doc} No \`${environmentName(spec.name)}\`.`,
          spec.from,
        ]),
      ),
    ],
    ['pointless-keys', table(['Key', 'Why'], byStatus('pointless').map(nameAndDoc))],
    [
      'model-keys',
      table(
        ['Key', 'Default', 'Unit', 'Meaning', 'From'],
        modelKeys.map(({ name, defaultDoc, unit, doc, from, status }) => [
          `\`${name}\``,
          defaultDoc,
          unit ?? '',
          status === 'pointless' ? `No effect. ${doc}` : doc,
          from,
        ]),
      ),
    ],
    [
      'onnx-keys',
      table(
        ['Option', 'Default', 'Meaning'],
        onnxKeys.map(({ name, value, defaultDoc, doc }) => [
          `\`${name}\``,
          defaultDoc,
          value.kind === 'choice' ? `${doc} One of ${value.choices.map((choice) => `\`${choice}\``).join(', ')}.` : doc,
        ]),
      ),
    ],
    [
      'refused-onnx-keys',
      table(
        ['Option', 'Why'],
        [...refusedOnnxKeys].map(([name, why]) => [`\`${name}\``, why]),
      ),
    ],
  ]);
}

function nameAndDoc({ name, doc }: KeySpec): string[] {
  return [`\`${name}\``, doc];
}

function allowed({ value, unit }: KeySpec): string {
  const text = describeKind(value);
  return unit === undefined ? text : `${text} ${unit}`;
}

function describeKind(value: ValueKind): string {
  switch (value.kind) {
    case 'integer':
    case 'number':
      return `${value.min} to ${value.max}`;
    case 'choice':
      return value.choices.map((choice) => `\`${choice}\``).join(', ');
    case 'boolean':
      return '`true`, `false`';
    case 'archives':
      return 'list';
    case 'patterns':
      return 'list of expressions';
    case 'regex':
      return 'expression';
    case 'json':
      return 'JSON';
    case 'text':
    case 'path':
    case 'address':
      break;
  }
  return value.kind;
}

function table(head: readonly string[], rows: readonly string[][]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('');
}
