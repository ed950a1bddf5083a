import { numbers, words } from './boundaries.js';
import type { Random } from './random.js';

const datatypes = [
  'FP32',
  'FP32',
  'FP32',
  'FP32',
  'FP32',
  'FP32',
  'FP32',
  'FP32',
  'INT64',
  'BYTES',
  'BOOL',
  'FP16',
  'UINT64',
  'BF16',
  'fp32',
  '',
  'FP128',
];

/** JSON text, mostly valid; numbers keep their odd forms, keys may repeat. */
export function json(random: Random, depth = 4): string {
  return random.pick([
    () => random.pick(numbers),
    () => random.pick(numbers),
    () => string(random),
    () => random.pick(['true', 'false', 'null', '""', '"\\ud800"', '"\\u0000"', "'a'", 'undefined', '\uFEFF1', '//']),
    () => (depth <= 0 ? '[]' : `[${random.list(4, () => json(random, depth - 1)).join(random.chance(0.95) ? ',' : ',,')}]`),
    () =>
      object(
        random,
        random.list(4, () => [random.pick(words).slice(0, 100), json(random, depth - 1)] as const),
      ),
  ])();
}

const string = (random: Random) => (random.chance(0.9) ? JSON.stringify(random.pick(words)) : `"${random.pick(words)}"`);

export function object(random: Random, entries: ReadonlyArray<readonly [string, string]>): string {
  const all = random.chance(0.1) ? [...entries, ...entries] : entries;
  const kept = all.filter(() => random.chance(0.97));
  return `{${kept.map(([name, value]) => `${JSON.stringify(name)}:${random.chance(0.04) ? json(random, 2) : value}`).join(',')}}`;
}

/** Arrays or objects in each other, up to far deeper than any limit. */
export function deep(random: Random): string {
  const depth = random.pick([100, 511, 512, 513, 5_000, 100_000]);
  const [open, close] = random.pick([
    ['[', ']'],
    ['{"a":', '}'],
    ['[{"a":', '}]'],
  ] as const);
  return `${open.repeat(depth)}1${random.chance(0.8) ? close.repeat(depth) : ''}`;
}

function dimension(random: Random): string {
  return random.chance(0.7) ? String(random.int(0, 5)) : random.pick(numbers);
}
const list = (values: readonly string[]) => `[${values.join(',')}]`;

export function tensor(random: Random): string {
  const rows = random.int(0, 3);
  const shape = random.chance(0.7) ? `[${rows},4]` : list(random.list(6, () => dimension(random)));
  const odd = random.chance(0.4) ? 0.2 : 0;
  const value = () => (!random.chance(odd) ? String(random.int(-9, 9)) : json(random, 1));
  const data = Array.from({ length: random.chance(0.85) ? rows * 4 : random.int(0, 20) }, value);
  const nested = random.chance(0.1) ? list([list(data), list(data)]) : list(data);
  return object(random, [
    ['name', random.chance(0.85) ? '"input"' : string(random)],
    ['datatype', JSON.stringify(random.pick(datatypes))],
    ['shape', shape],
    ['data', nested],
    ...(random.chance(0.1) ? ([['parameters', json(random, 2)]] as const) : []),
  ]);
}

/** A request of the Open Inference Protocol. */
export function inferRequest(random: Random): string {
  if (random.chance(0.05)) return deep(random);
  return object(random, [
    ['id', string(random)],
    ['parameters', random.chance(0.8) ? '{}' : json(random, 3)],
    ['inputs', list(random.chance(0.8) ? [tensor(random)] : random.list(3, () => tensor(random)))],
    ['outputs', random.chance(0.8) ? '[{"name":"output"}]' : json(random, 3)],
  ]);
}

/** A request of KServe's V1 protocol. */
export function instances(random: Random): string {
  if (random.chance(0.05)) return deep(random);
  const row = () => list(Array.from({ length: random.chance(0.9) ? 4 : random.int(0, 9) }, () => dimension(random)));
  const rows = random.chance(0.5);
  const one = () => random.pick(rows ? [row] : [row, row, () => json(random, 3), () => object(random, [['input', row()]])])();
  return object(random, [
    [
      random.pick(['instances', 'instances', 'instances', 'inputs', 'Instances', 'signature_name']),
      list(random.list(random.chance(0.02) ? 2000 : 6, one)),
    ],
    ...(random.chance(0.1) ? ([['parameters', json(random, 2)]] as const) : []),
  ]);
}
