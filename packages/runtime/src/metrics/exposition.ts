import type { MetricType } from './names.js';

export type Format = 'text' | 'openmetrics';

export const contentTypes: Record<Format, string> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** One line: `suffix` is what follows the family's name, `labels` is `a="b",c="d"` with values already escaped. */
export interface Sample {
  readonly suffix: string;
  readonly labels: string;
  readonly value: number;
}

export interface FamilySamples {
  readonly name: string;
  readonly type: MetricType | 'summary';
  readonly help: string;
  readonly samples: Iterable<Sample>;
}

export function escapeLabel(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n') : value;
}

export function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, at) => `${name}="${escapeLabel(values[at] ?? '')}"`).join(',');
}

export function numberText(value: number): string {
  if (value === Infinity) return '+Inf';
  if (value === -Infinity) return '-Inf';
  return String(value);
}

/** A bucket's bound, written the same way in both formats so that switching formats never renames a series. */
export function boundText(bound: number): string {
  return Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

/**
 * OpenMetrics wants a counter's samples to end in `_total` and its family not to. A counter whose name does not end
 * so keeps its name, as dashboards know it, and is declared `unknown` there.
 */
function declared(family: FamilySamples, format: Format): { name: string; type: string } {
  if (format === 'text' || family.type !== 'counter') return { name: family.name, type: family.type };
  if (family.name.endsWith('_total')) return { name: family.name.slice(0, -'_total'.length), type: 'counter' };
  return { name: family.name, type: 'unknown' };
}

export function render(families: Iterable<FamilySamples>, format: Format): string {
  const lines: string[] = [];
  for (const family of families) {
    const { name, type } = declared(family, format);
    let help = family.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
    if (format === 'openmetrics') help = help.replaceAll('"', '\\"');
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const { suffix, labels, value } of family.samples)
      lines.push(`${family.name}${suffix}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}`);
  }
  if (format === 'openmetrics') lines.push('# EOF');
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}
