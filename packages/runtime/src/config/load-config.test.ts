import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CommandLineFlags } from './config-sources.js';
import { loadConfig } from './load-config.js';
import type { ConfigProblem, LoadedConfig } from './server-config.js';

let cwd: string;
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'onnxserve-config-'));
  mkdirSync(join(cwd, 'store'));
});
afterEach(() => rmSync(cwd, { recursive: true }));

interface Given {
  readonly file?: string;
  readonly argv?: CommandLineFlags;
  readonly env?: NodeJS.ProcessEnv;
}

/** Loads with `file` as ./config.properties. */
function load({ file, argv = {}, env = {} }: Given): LoadedConfig {
  if (file !== undefined) writeFileSync(join(cwd, 'config.properties'), file);
  return loadConfig({ argv, env, cwd });
}

const store = 'model_store=store\n';
const of = (severity: ConfigProblem['severity'], { problems }: LoadedConfig) =>
  problems.filter((problem) => problem.severity === severity);
const errors = (loaded: LoadedConfig) => of('error', loaded);

describe('sources of values', () => {
  it('has every default without a file', () => {
    const loaded = load({ argv: { modelStore: 'store' } });
    expect(loaded.problems).toEqual([]);
    expect(loaded.config).toMatchObject({
      inferenceAddress: { protocol: 'http', host: '127.0.0.1', port: 8080 },
      managementAddress: { port: 8081 },
      metricsAddress: { port: 8082 },
      modelStore: join(cwd, 'store'),
      workflowStore: join(cwd, 'store'),
      loadModels: [],
      models: {},
      defaultWorkersPerModel: 0,
      jobQueueSize: 100,
      defaultResponseTimeout: 120,
      maxRequestSize: 6_553_500,
      allowedUrls: [],
      metricsMode: 'prometheus',
      tokens: { required: new Set(), given: {}, keyFile: join(cwd, 'key_file.json'), keyFileMayMove: true, lifetimeMinutes: 60 },
      allowPrivateUrls: true,
      logLocation: join(cwd, 'logs'),
      metricsLocation: join(cwd, 'logs'),
      keepAliveTimeout: 75,
    });
    expect(loaded.origins.get('job_queue_size')).toEqual({ source: 'default', where: undefined });
  });

  it('prefers TS_CONFIG_FILE to --ts-config to ./config.properties', () => {
    writeFileSync(join(cwd, 'env.properties'), `${store}job_queue_size=1\n`);
    writeFileSync(join(cwd, 'flag.properties'), `${store}job_queue_size=2\n`);
    const file = `${store}job_queue_size=3\n`;
    const both = load({ file, argv: { tsConfig: 'flag.properties' }, env: { TS_CONFIG_FILE: 'env.properties' } });
    expect(both.config.jobQueueSize).toBe(1);
    expect(both.origins.get('job_queue_size')).toEqual({ source: 'file', where: 'env.properties:2' });
    expect(both.problems).toMatchObject([{ severity: 'warning', key: 'TS_CONFIG_FILE' }]);
    expect(load({ argv: { tsConfig: 'flag.properties' } }).config.jobQueueSize).toBe(2);
    expect(load({}).config.jobQueueSize).toBe(3);
  });

  it.each<[string, Given]>([
    ['TS_CONFIG_FILE', { env: { TS_CONFIG_FILE: 'missing.properties' } }],
    ['--ts-config', { argv: { tsConfig: 'missing.properties' } }],
  ])('refuses a missing file of %s', (where, given) => {
    expect(errors(load({ ...given, file: store }))[0]).toMatchObject({
      where,
      message: expect.stringContaining('missing.properties'),
    });
  });

  describe('environment', () => {
    const env = { TS_JOB_QUEUE_SIZE: '7', TS_MODEL_STORE: 'store', TS_MODELS: '{}', TS_METRIC_TIME_INTERVAL: '5' };

    it.each(['', 'enable_envvars_config=false\n'])('has no effect with %j, and that is said', (line) => {
      const loaded = load({ file: `${store}job_queue_size=3\n${line}`, env });
      expect(loaded.config.jobQueueSize).toBe(3);
      expect(loaded.problems).toContainEqual(expect.objectContaining({ severity: 'info', where: 'TS_JOB_QUEUE_SIZE' }));
    });

    it('beats file and command line once enabled, but not for the keys that have no variable', () => {
      mkdirSync(join(cwd, 'other'));
      const file = 'job_queue_size=3\nenable_envvars_config=true\nmetric_time_interval=9\n';
      const loaded = load({ file, argv: { modelStore: 'other' }, env });
      expect(loaded.config).toMatchObject({ jobQueueSize: 7, modelStore: join(cwd, 'store'), metricTimeInterval: 9 });
      expect(loaded.origins.get('job_queue_size')).toEqual({ source: 'environment', where: 'TS_JOB_QUEUE_SIZE' });
      expect(errors(loaded)).toEqual([]);
    });

    it('names a variable that is nearly a key', () => {
      const loaded = load({
        file: `${store}enable_envvars_config=true\n`,
        env: { TS_JOB_QUEUE_SISE: '7', TS_NODE_PROJECT: 'x' },
      });
      expect(loaded.problems).toMatchObject([
        { key: 'TS_JOB_QUEUE_SISE', message: expect.stringContaining('TS_JOB_QUEUE_SIZE') },
      ]);
    });

    it('takes TS_ALLOWED_URLS only with use_env_allowed_urls', () => {
      const urls = { TS_ALLOWED_URLS: 'https://a/.*, file:///b/.*' };
      const file = `${store}allowed_urls=https://c/.*\nenable_envvars_config=true\n`;
      expect(load({ file, env: urls }).config.allowedUrls).toEqual(['https://c/.*']);
      const loaded = load({ file: `${file}use_env_allowed_urls=true\n`, env: urls });
      expect(loaded.config.allowedUrls).toEqual(['https://a/.*', 'file:///b/.*']);
    });

    it('chooses the folders of logs and temporary files', () => {
      const loaded = load({ file: store, env: { LOG_LOCATION: '/l', METRICS_LOCATION: 'm', TMPDIR: '/t' } });
      expect(loaded.config).toMatchObject({ logLocation: '/l', metricsLocation: join(cwd, 'm'), tempDirectory: '/t' });
      expect(loaded.origins.get('temp_directory')).toEqual({ source: 'environment', where: 'TMPDIR' });
    });

    it('replaces $$NAME$$ in the file', () => {
      const file = `${store}inference_address=http://$$HOST$$:$$PORT$$\n`;
      expect(load({ file, env: { HOST: '0.0.0.0', PORT: '9' } }).config.inferenceAddress).toMatchObject({
        host: '0.0.0.0',
        port: 9,
      });
      expect(errors(load({ file, env: { HOST: 'h' } }))[0]).toMatchObject({
        key: 'inference_address',
        where: 'config.properties:2',
        message: expect.stringContaining('PORT'),
      });
    });
  });

  describe('command line', () => {
    it('beats the file', () => {
      mkdirSync(join(cwd, 'w x'));
      const argv = { modelStore: 'store', workflowStore: 'w x', models: ['a.mar', 'b=c.mar'] };
      const loaded = load({ file: 'model_store=/missing\nload_models=z.mar\n', argv });
      expect(loaded.config).toMatchObject({ modelStore: join(cwd, 'store'), workflowStore: join(cwd, 'w x') });
      expect(loaded.config.loadModels).toEqual([
        { name: undefined, url: 'a.mar' },
        { name: 'b', url: 'c.mar' },
      ]);
      expect(loaded.origins.get('load_models')).toEqual({ source: 'command line', where: '--models' });
      expect(errors(loaded)).toEqual([]);
    });

    it('only turns security flags on', () => {
      const file = `${store}disable_token_authorization=true\nenable_model_api=false\n`;
      const loaded = load({ file, argv: { disableTokenAuth: false, enableModelApi: true } });
      expect(loaded.config).toMatchObject({ tokens: { required: new Set() }, enableModelApi: true });
      expect(loaded.origins.get('disable_token_authorization')?.source).toBe('file');
      expect(loaded.origins.get('enable_model_api')?.where).toBe('--enable-model-api');
    });

    it('has the last word by overrides', () => {
      const file = `${store}enable_envvars_config=true\njob_queue_size=1\n`;
      const loaded = load({ file, env: { TS_JOB_QUEUE_SIZE: '2' }, argv: { overrides: { job_queue_size: '3' } } });
      expect(loaded.config.jobQueueSize).toBe(3);
    });
  });
});

describe('model store', () => {
  it.each<[string, Given]>([
    ['only in the file', { file: store }],
    ['only on the command line', { file: '', argv: { modelStore: 'store' } }],
    ['not needed for paths', { file: '', argv: { models: ['./a.mar', 'b=/b/c.onnx'] } }],
  ])('%s', (_, given) => expect(errors(load(given))).toEqual([]));

  it('may have blanks in its name', () => {
    mkdirSync(join(cwd, 'my models'));
    const loaded = load({ file: 'model_store=my models\n' });
    expect([loaded.config.modelStore, errors(loaded)]).toEqual([join(cwd, 'my models'), []]);
  });

  it.each<[string, Given, string]>([
    ['neither', { file: '' }, '--model-store'],
    ['needed for names', { file: '', argv: { models: ['./a.mar', 'b.mar'] } }, '--model-store'],
    ['not there', { file: 'model_store=missing\n' }, 'does not exist'],
    ['a file', { file: 'model_store=config.properties\n' }, 'is no folder'],
  ])('is refused: %s', (_, given, part) => {
    expect(errors(load(given))).toMatchObject([{ key: 'model_store', message: expect.stringContaining(part) }]);
  });
});

describe('mistakes in the file', () => {
  it.each<[string, string, string]>([
    ['job_queue_size=abc', 'job_queue_size', '1 to 10000000'],
    ['job_queue_size=0', 'job_queue_size', '1 to 10000000'],
    ['job_queue_size=1.5', 'job_queue_size', 'whole number'],
    ['default_response_timeout=99999999', 'default_response_timeout', '1 to 2147483 s'],
    ['metrics_mode=loud', 'metrics_mode', 'log, prometheus, legacy'],
    ['enable_metrics_api=yes', 'enable_metrics_api', 'true or false'],
    ['inference_address=127.0.0.1:8080', 'inference_address', 'http://host[:port]'],
    ['inference_address=https://127.0.0.1', 'inference_address', 'TLS'],
    ['allowed_urls=https://(.*', 'allowed_urls', 'regular expression'],
    ['blacklist_env_vars=*', 'blacklist_env_vars', 'regular expression'],
    ['job_queue_size="5"', 'job_queue_size', 'drop the quotes'],
    ['number_of_gpu=-1', 'number_of_gpu', '0 to 1024'],
    ['models={', 'models', 'no JSON'],
    ['log_location=\\u12', 'log_location', 'four hexadecimal digits'],
  ])('%s is an error with its line', (line, key, part) => {
    const found = errors(load({ file: `${store}# comment\n${line}\n` }));
    expect(found).toMatchObject([{ key, where: 'config.properties:3', message: expect.stringContaining(part) }]);
  });

  it('says to drop the quotes of a path', () => {
    const found = errors(load({ file: 'model_store="store"\n' }));
    expect(found[0]).toMatchObject({
      where: 'config.properties:1',
      message: expect.stringMatching(/drop the quotes.*model_store=store/),
    });
  });

  it('never shows a secret in a message', () => {
    const { problems } = load({ file: `${store}keystore_pass="hunter2"\n` });
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });

  it.each<[string, ConfigProblem['severity'], string]>([
    ['job_queue_sise=5', 'warning', 'did you mean job_queue_size?'],
    ['jobQueueSize=5', 'warning', 'did you mean job_queue_size?'],
    ['something_else=5', 'warning', 'unknown'],
    ['number_of_netty_threads=4', 'info', 'no effect'],
    ['vmargs=-Xmx1g', 'info', 'no effect'],
    ['log_location=C:\\models', 'warning', 'backslash'],
  ])('%s is no error', (line, severity, part) => {
    const { problems } = load({ file: `${store}${line}\n` });
    expect(problems).toMatchObject([{ severity, where: 'config.properties:2', message: expect.stringContaining(part) }]);
  });

  it('keeps the default of a value that cannot be read', () => {
    const loaded = load({ file: `${store}job_queue_size=x\nmetrics_mode=LEGACY\n` });
    expect(loaded.config).toMatchObject({ jobQueueSize: 100, metricsMode: 'legacy' });
    expect(loaded.origins.get('job_queue_size')?.source).toBe('default');
  });

  it('reads a file with byte order mark, CRLF and blanks at the ends of lines', () => {
    const loaded = load({ file: '\uFEFFmodel_store = store \r\njob_queue_size: 5\t\r\nmetrics_mode log\r\n' });
    expect(loaded.problems).toEqual([]);
    expect(loaded.config).toMatchObject({ modelStore: join(cwd, 'store'), jobQueueSize: 5, metricsMode: 'log' });
  });
});

describe('tokens', () => {
  const required = (line: string, env: NodeJS.ProcessEnv = {}, argv: CommandLineFlags = {}) => [
    ...load({ file: `${store}${line}\n`, env, argv }).config.tokens.required,
  ];

  it.each([
    ['', []],
    ['management_address=http://[::1]:1', []],
    ['management_address=unix:/run/m', []],
    ['inference_address=http://0.0.0.0:8080', []],
    ['management_address=http://0.0.0.0:8081', ['management']],
    ['grpc_management_address=0.0.0.0', ['management']],
    ['management_address=http://127.example.com:8081', ['management']],
    ['disable_token_authorization=false', ['inference', 'management']],
    ['disable_token_authorization=true\nmanagement_address=http://0.0.0.0:8081', []],
  ])('with "%s" are needed by %j', (line, scopes) => expect(required(line)).toEqual(scopes));

  it('are turned off by the flag', () => {
    expect(required('disable_token_authorization=false', {}, { disableTokenAuth: true })).toEqual([]);
  });

  it('that are given are needed', () => {
    expect(required('', { ONNXSERVE_INFERENCE_TOKEN: 'abc' })).toEqual(['inference']);
    const { config } = load({
      file: store,
      env: { ONNXSERVE_MANAGEMENT_TOKEN_FILE: 'secret', ONNXSERVE_INFERENCE_TOKEN: ' abc ' },
    });
    expect(config.tokens.given).toEqual({
      inference: { from: 'ONNXSERVE_INFERENCE_TOKEN', value: 'abc' },
      management: { from: 'ONNXSERVE_MANAGEMENT_TOKEN_FILE', file: join(cwd, 'secret') },
    });
  });

  it.each<[NodeJS.ProcessEnv, string, string, string]>([
    [{ ONNXSERVE_INFERENCE_TOKEN: 'a b' }, '', 'error', 'one word'],
    [{ ONNXSERVE_INFERENCE_TOKEN: 'a', ONNXSERVE_INFERENCE_TOKEN_FILE: 'b' }, '', 'error', 'both set'],
    [{ ONNXSERVE_INFERENCE_TOKEN: 'a' }, 'disable_token_authorization=true', 'warning', 'nobody needs it'],
  ])('%j is told of', (env, line, severity, part) => {
    expect(load({ file: `${store}${line}\n`, env }).problems).toMatchObject([
      { severity, message: expect.stringContaining(part) },
    ]);
  });
});

describe('archives from private addresses', () => {
  it.each([
    ['', true],
    ['management_address=http://0.0.0.0:8081', false],
    ['management_address=http://0.0.0.0:8081\nallow_private_urls=true', true],
    ['allow_private_urls=false', false],
  ])('with "%s": %s', (line, allowed) => {
    expect(load({ file: `${store}${line}\n` }).config.allowPrivateUrls).toBe(allowed);
  });
});

describe('models to load', () => {
  it('reads a flag that holds several models', () => {
    const { config } = load({ file: store, argv: { models: ['a.mar b=b.mar', 'c.mar'] } });
    expect(config.loadModels).toMatchObject([{ url: 'a.mar' }, { name: 'b', url: 'b.mar' }, { url: 'c.mar' }]);
  });

  const models = (settings: object, name = 'a') => `models=${JSON.stringify({ [name]: { '1.0': settings } })}\n`;

  it('reads the settings of models', () => {
    const settings = { minWorkers: 1, maxWorkers: 3, batchSize: 5, maxBatchDelay: 200, responseTimeout: 77, marName: 'a.mar' };
    const loaded = load({ file: `${store}load_models=a.mar\n${models(settings)}` });
    expect(loaded.config.models).toEqual({ a: { '1.0': settings } });
    expect(loaded.config.loadModels).toEqual([{ name: 'a', url: 'a.mar' }]);
    expect(loaded.problems).toEqual([]);
  });

  const wrong = [0, -1, 'five', 1.5, null, true];
  const keys = ['minWorkers', 'maxWorkers', 'batchSize', 'maxBatchDelay', 'responseTimeout', 'startupTimeout'];
  it.each(keys.flatMap((key) => wrong.map((value) => [key, value] as const)))('%s %j stops the start', (key, value) => {
    const found = errors(load({ file: `${store}load_models=a.mar\n${models({ [key]: value })}` }));
    const path = `models.a.1.0.${key}`;
    expect(found).toMatchObject([{ key: path, where: 'config.properties:3', message: expect.stringContaining(`${path} is`) }]);
  });

  it.each<[object, string]>([
    [{ minWorkers: 3, maxWorkers: 1 }, 'models.a.1.0.maxWorkers'],
    [{ maxWorkers: 100_000 }, 'models.a.1.0.maxWorkers'],
    [{ marName: 5 }, 'models.a.1.0.marName'],
    [{ defaultVersion: 'x' }, 'models.a.1.0.defaultVersion'],
  ])('%j is refused', (settings, key) => {
    expect(errors(load({ file: `${store}load_models=a.mar\n${models(settings)}` }))).toMatchObject([{ key }]);
  });

  it('names an unknown setting', () => {
    const { problems } = load({ file: `${store}load_models=a.mar\n${models({ batch_size: 3 })}` });
    expect(problems).toMatchObject([{ severity: 'warning', message: expect.stringContaining('did you mean batchSize?') }]);
  });

  it('loads what models names when load_models is not set', () => {
    const loaded = load({ file: `${store}${models({ marName: 'testmodel.mar' }, 'newmodel')}` });
    expect(loaded.config.loadModels).toEqual([{ name: 'newmodel', url: 'testmodel.mar' }]);
    expect(loaded.problems).toMatchObject([{ severity: 'info', message: expect.stringContaining('newmodel=testmodel.mar') }]);
    expect(load({ file: `${store}${models({})}` }).config.loadModels).toEqual([{ name: 'a', url: 'a.mar' }]);
  });

  it('names an archive as models does', () => {
    const loaded = load({ file: `${store}load_models=testmodel.mar\n${models({ marName: 'testmodel.mar' }, 'newmodel')}` });
    expect(loaded.config.loadModels).toEqual([{ name: 'newmodel', url: 'testmodel.mar' }]);
    expect(loaded.problems).toEqual([]);
  });

  it('warns of a model that load_models leaves out, and refuses another archive for its name', () => {
    const out = load({ file: `${store}load_models=b.mar\n${models({ marName: 'a.mar' })}` });
    expect(out.problems).toMatchObject([{ severity: 'warning', key: 'models', message: expect.stringContaining('models.a') }]);
    const mismatch = load({ file: `${store}load_models=a=b.mar\n${models({ marName: 'a.mar' })}` });
    expect(errors(mismatch)).toMatchObject([{ key: 'models', message: expect.stringContaining('b.mar') }]);
  });

  describe('snapshot', () => {
    const version = { defaultVersion: true, marName: 'a.mar', minWorkers: 0, maxWorkers: 0, batchSize: 2, maxBatchDelay: 50 };
    const snapshot = JSON.stringify({ name: 's', modelCount: 1, models: { a: { '1.0': version } } });

    it('replaces load_models of the file', () => {
      const loaded = load({ file: `${store}load_models=all\nmodel_snapshot=${snapshot}\n` });
      expect(loaded.config).toMatchObject({
        loadModels: [{ name: 'a', url: 'a.mar' }],
        models: { a: { '1.0': version } },
        modelsFromSnapshot: true,
      });
      expect(errors(loaded)).toEqual([]);
    });

    it('is replaced by --models', () => {
      const loaded = load({ file: `${store}model_snapshot=${snapshot}\n`, argv: { models: ['b.mar'] } });
      expect(loaded.config).toMatchObject({ loadModels: [{ url: 'b.mar' }], models: {}, modelsFromSnapshot: false });
    });

    it.each(['[]', '{"models":{"a":{"1.0":{}}}}', '{'])('%s is refused', (text) => {
      expect(errors(load({ file: `${store}model_snapshot=${text}\n` }))).toHaveLength(1);
    });
  });
});
