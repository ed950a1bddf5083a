import { numbers, words } from './boundaries.js';
import type { Random } from './random.js';
import { json, object } from './values.js';

const scalar = (random: Random): string =>
  random.pick([
    () => random.pick(numbers),
    () => random.pick(words).slice(0, 300),
    () => JSON.stringify(random.pick(words)),
    () => random.pick(['true', 'yes', '~', '{}', '[]', '*a', '&a 1', '!!binary x', '"', "'"]),
  ])();

/** YAML in block style: some keys known, some values nested, tabs and anchors where nobody wants them. */
export function yaml(random: Random, keys: readonly string[], depth = 3): string {
  const pad = '  '.repeat(3 - depth);
  const lines = random.list(8, () => {
    const key = random.chance(0.85) ? random.pick(keys) : scalar(random);
    const value = random.pick([
      () => scalar(random),
      () => scalar(random),
      () => json(random, 2),
      () => (depth > 0 ? `\n${yaml(random, keys, depth - 1)}` : ''),
      () => `\n${random.list(3, () => `${pad}  - ${scalar(random)}\n`).join('')}`,
      () => random.pick(['|\n   a\n  b', '>-', '&a {b: *a}', '&a [*a]', '<<', '? a', '{<<: *a}', '[*a, *a]']),
    ])();
    return `${random.chance(0.97) ? pad : '\t'}${key}${random.pick([': ', ': ', ': ', ':', ' :'])}${value}\n`;
  });
  return lines.join('');
}

/** Ten to the power of nine from a few lines. */
export const aliasBomb = [
  'a: &a [x,x,x,x,x,x,x,x,x,x]',
  ...'bcdefghi'
    .split('')
    .map((name, at) => `${name}: &${name} [${Array.from({ length: 10 }, () => `*${'abcdefgh'[at]}`).join(',')}]`),
].join('\n');

export const modelKeys = [
  'minWorkers',
  'maxWorkers',
  'batchSize',
  'maxBatchDelay',
  'responseTimeout',
  'startupTimeout',
  'deviceType',
  'deviceIds',
  'jobQueueSize',
  'models',
  'm',
  'onnx',
  'providers',
  'intraOpNumThreads',
  'sessions',
  'handler',
  'sequenceBatching',
  'clientTimeoutInMills',
  'parallelType',
  'rerunOnWorkerDeath',
  'useVenv',
];
export const workflowKeys = [
  'models',
  'dag',
  'min-workers',
  'max-workers',
  'batch-size',
  'retry-attempts',
  'timeout-ms',
  'url',
  'a',
  'b',
  'c',
  'pre',
];
export const metricKeys = [
  'dimensions',
  'ts_metrics',
  'model_metrics',
  'counter',
  'gauge',
  'histogram',
  'name',
  'unit',
  'mode',
  'buckets',
  'ms',
  'model_name',
];
export const propertyKeys = [
  'inference_address',
  'management_address',
  'metrics_address',
  'grpc_inference_port',
  'model_store',
  'load_models',
  'models',
  'model_snapshot',
  'default_workers_per_model',
  'job_queue_size',
  'max_request_size',
  'allowed_urls',
  'cors_allowed_origin',
  'keystore',
  'keystore_pass',
  'log_level',
  'enable_envvars_config',
  'number_of_gpu',
  'vmargs',
  'async_logging',
  'default_response_timeout',
  'service_envelope',
  'token_expiration_min',
];

export function properties(random: Random): string {
  const line = () => {
    const key = random.chance(0.85) ? random.pick(propertyKeys) : random.pick(words);
    const value = random.pick([
      () => random.pick(numbers),
      () => random.pick(words),
      () => json(random, 4),
      () => snapshot(random),
      () =>
        random.pick([
          'http://127.0.0.1:0',
          'http://[::1',
          'unix:/',
          'https://a:99999',
          '\\u00',
          '\\uD800',
          '\\',
          'a\\\nb',
          '${HOME}',
          '${',
          '$${A}',
          'all',
          '*',
        ]),
    ])();
    return `${key}${random.pick(['=', '=', ' = ', ':', ' ', ''])}${value.slice(0, 20_000)}${random.pick(['\n', '\n', '\r\n', '\r', '\\\n'])}`;
  };
  return random.list(12, line).join('');
}

const settings = [
  'minWorkers',
  'maxWorkers',
  'batchSize',
  'maxBatchDelay',
  'responseTimeout',
  'startupTimeout',
  'marName',
  'defaultVersion',
  'handler',
  'runtimeType',
];
export function snapshot(random: Random): string {
  const version = () =>
    object(
      random,
      settings.map((name) => [name, random.chance(0.5) ? '1' : json(random, 1)] as const),
    );
  const model = () =>
    object(
      random,
      random.list(3, () => [random.pick(['1.0', '2', ...words.slice(0, 40)]).slice(0, 99), version()] as const),
    );
  const models = object(
    random,
    random.list(4, () => [random.pick(words).slice(0, 99), model()] as const),
  );
  return object(random, [
    ['name', '"startup.cfg"'],
    ['modelCount', random.pick(numbers)],
    ['created', random.pick(numbers)],
    ['models', models],
  ]);
}

const fields = [
  'modelName',
  'modelVersion',
  'handler',
  'serializedFile',
  'modelFile',
  'configFile',
  'requirementsFile',
  'description',
  'envelope',
];
export const manifestSeed = JSON.stringify({
  runtime: 'node',
  model: { modelName: 'm', modelVersion: '1.0', serializedFile: 'm.onnx', configFile: 'c.yaml', handler: 'h.mjs' },
});
export function manifest(random: Random): string {
  const value = () =>
    random.pick([
      () => '"h.mjs"',
      () => '"m.onnx"',
      () => '"c.yaml"',
      () => '"../x"',
      () => '"/etc/passwd"',
      () => JSON.stringify(random.pick(words)),
      () => json(random, 1),
    ])();
  const model = object(
    random,
    fields.filter(() => random.chance(0.6)).map((name) => [name, value()] as const),
  );
  return object(random, [
    ['runtime', random.pick(['"node"', '"python"', '"LSP"', '"java"', '1'])],
    ['model', model],
    ['createdOn', json(random, 0)],
    ['archiverVersion', json(random, 0)],
  ]);
}
export const workflowManifest = '{"workflow":{"workflowName":"w","specFile":"spec.yaml","handler":"h.mjs"}}';
