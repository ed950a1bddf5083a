/** A scrape, taken apart. */
export interface Exposition {
  readonly types: ReadonlyMap<string, string>;
  /** Value by `name{labels}` as written. */
  readonly samples: ReadonlyMap<string, number>;
  /** The samples of one name with their labels unescaped. */
  of(name: string): ReadonlyArray<{ readonly labels: Readonly<Record<string, string>>; readonly value: number }>;
  /** Sum of the samples of a name that have these labels. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;
const labelName = /^[a-zA-Z_][a-zA-Z0-9_]*/;
const numeric = /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN)$/;
const partsOf: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};

/**
 * Reads the text format as strictly as its specification is written, OpenMetrics too: every line a sample or its
 * family's head, families in one piece, labels escaped, no series twice, buckets cumulative and complete.
 * @throws naming the line and what is wrong with it
 */
export function parseExposition(text: string, format: 'text' | 'openmetrics' = 'text'): Exposition {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const lines = text.slice(0, -1).split('\n');
  if (format === 'openmetrics' && lines.pop() !== '# EOF') throw new Error('there is no # EOF at the end');
  const types = new Map<string, string>();
  const samples = new Map<string, number>();
  const list: Array<{ name: string; labels: Record<string, string>; value: number }> = [];
  let family = '';
  for (const line of lines) {
    const wrong = (what: string) => new Error(`${what}: ${line}`);
    if (line.startsWith('#')) {
      const head = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
      if (head === null) throw wrong('neither HELP nor TYPE');
      const [, kind, name = '', rest = ''] = head;
      if (metricName.exec(name)?.[0] !== name) throw wrong('not a name');
      if (kind === 'HELP') {
        if (/\\(?![\\n"])/.test(rest)) throw wrong('a backslash that escapes nothing');
        continue;
      }
      if (types.has(name)) throw wrong('a family twice');
      if (!/^(counter|gauge|histogram|summary|untyped|unknown)$/.test(rest)) throw wrong('not a type');
      types.set(name, rest);
      family = name;
      continue;
    }
    const sample = readSample(line);
    const type = types.get(family) ?? '';
    const suffixes = partsOf[type] ?? (format === 'openmetrics' && type === 'counter' ? ['_total'] : ['']);
    if (!suffixes.some((suffix) => sample.name === family + suffix)) throw wrong(`not of the family ${family}`);
    const key = `${sample.name}${JSON.stringify(Object.entries(sample.labels).sort(([a], [b]) => (a < b ? -1 : 1)))}`;
    if (samples.has(key)) throw wrong('a series twice');
    if (type === 'counter' && !(sample.value >= 0)) throw wrong('a counter below zero');
    samples.set(key, sample.value);
    list.push(sample);
  }
  for (const [name, type] of types) if (type === 'histogram') checkHistogram(name, list);
  const of = (name: string) => list.filter((it) => it.name === name);
  const sum = (name: string, labels: Readonly<Record<string, string>> = {}) =>
    of(name)
      .filter((it) => Object.entries(labels).every(([key, value]) => it.labels[key] === value))
      .reduce((total, { value }) => total + value, 0);
  return { types, samples, of, sum };
}

function readSample(line: string): { name: string; labels: Record<string, string>; value: number } {
  const wrong = (what: string) => new Error(`${what}: ${line}`);
  const name = metricName.exec(line)?.[0];
  if (name === undefined) throw wrong('not a sample');
  let at = name.length;
  const labels: Record<string, string> = {};
  if (line[at] === '{') {
    at++;
    for (;;) {
      const label = labelName.exec(line.slice(at))?.[0];
      if (label === undefined) throw wrong('not a label');
      at += label.length;
      if (line.slice(at, at + 2) !== '="') throw wrong('a label without a quoted value');
      at += 2;
      let value = '';
      while (line[at] !== '"') {
        if (line[at] === undefined) throw wrong('a label value without an end');
        if (line[at] === '\\') {
          const escaped = { '\\': '\\', '"': '"', n: '\n' }[line[at + 1] ?? ''];
          if (escaped === undefined) throw wrong('an unknown escape');
          value += escaped;
          at += 2;
        } else value += line[at++];
      }
      at++;
      if (Object.hasOwn(labels, label)) throw wrong('a label twice');
      labels[label] = value;
      if (line[at] === '}') break;
      if (line[at++] !== ',') throw wrong('neither a comma nor the end of the labels');
    }
    at++;
  }
  const rest = line.slice(at);
  if (!rest.startsWith(' ') || !numeric.test(rest.slice(1))) throw wrong('not a value');
  return { name, labels, value: Number(rest.slice(1).replace('Inf', 'Infinity')) };
}

function checkHistogram(
  name: string,
  list: ReadonlyArray<{ name: string; labels: Readonly<Record<string, string>>; value: number }>,
) {
  const last = new Map<string, { bound: number; value: number }>();
  const key = (labels: Readonly<Record<string, string>>) =>
    JSON.stringify(Object.entries(labels).filter(([label]) => label !== 'le'));
  for (const { labels, value } of list.filter((it) => it.name === `${name}_bucket`)) {
    const bound = Number((labels['le'] ?? '').replace('Inf', 'Infinity'));
    const before = last.get(key(labels)) ?? { bound: -Infinity, value: 0 };
    if (!(bound > before.bound) || value < before.value)
      throw new Error(`buckets of ${name} are not cumulative at ${JSON.stringify(labels)}`);
    last.set(key(labels), { bound, value });
  }
  for (const { labels, value } of list.filter((it) => it.name === `${name}_count`)) {
    const end = last.get(key(labels));
    if (end?.bound !== Infinity || end.value !== value) throw new Error(`${name}_count is not its +Inf bucket`);
  }
}
