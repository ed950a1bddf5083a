import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CommandLineFlags } from './config-sources.js';
import { loadConfig } from './load-config.js';
import { readLog4jLevels } from './log4j.js';
import { parseProperties } from './properties.js';
import { formatSnapshot, nameOfSnapshot, type SnapshotModel } from './snapshot-format.js';

let cwd: string;
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'snapshot-'));
  mkdirSync(join(cwd, 'store'));
  mkdirSync(join(cwd, 'logs', 'config'), { recursive: true });
});
afterEach(() => rmSync(cwd, { recursive: true }));

const model: SnapshotModel = {
  defaultVersion: true,
  marName: 'kit.mar',
  minWorkers: 2,
  maxWorkers: 2,
  batchSize: 1,
  maxBatchDelay: 100,
  responseTimeout: 120,
  startupTimeout: 120,
  runtimeType: 'python',
};
const load = (argv: CommandLineFlags = {}, env: NodeJS.ProcessEnv = {}) => loadConfig({ argv, env, cwd });
const messages = (loaded: ReturnType<typeof load>) => loaded.problems.map(({ severity, message }) => `${severity}: ${message}`);

function snapshot(name: string, values: Readonly<Record<string, string>>, models = { kit: { '1.0': model } }): void {
  const text = formatSnapshot({ name, created: new Date(0), values: new Map(Object.entries(values)), models });
  writeFileSync(join(cwd, 'logs', 'config', name), text);
}

describe('the text of a snapshot', () => {
  it('is what Java writes and reads', () => {
    const values = new Map([
      ['inference_address', 'http://127.0.0.1:18080'],
      ['a b', ' #ünï=\\x!'],
    ]);
    const text = formatSnapshot({
      name: '20261130094932875-startup.cfg',
      created: new Date(0),
      values,
      models: { kit: { '1.0': model } },
    });
    expect(text).toContain('\ninference_address=http\\://127.0.0.1\\:18080\n');
    expect(text).toContain('\na\\ b=\\ \\#\\u00FCn\\u00EF\\=\\\\x\\!\n');
    expect(text).toContain(
      '\nmodel_snapshot={\\n  "name"\\: "20261130094932875-startup.cfg",\\n  "modelCount"\\: 1,\\n  "created"\\: 0,',
    );
    const { properties, issues } = parseProperties(text);
    expect(issues).toEqual([]);
    expect(properties.get('a b')?.value).toBe(' #ünï=\\x!');
    expect(JSON.parse(properties.get('model_snapshot')?.value ?? '')).toMatchObject({ models: { kit: { '1.0': model } } });
  });

  it('has a name that sorts by time', () => {
    expect(nameOfSnapshot(new Date(2026, 10, 30, 9, 4, 5, 7), 'shutdown')).toBe('20261130090405007-shutdown.cfg');
  });
});

describe('a start without a named configuration', () => {
  it('takes settings and models from the last snapshot, and says so', () => {
    snapshot('20261130000000001-startup.cfg', { model_store: 'store', job_queue_size: '1' });
    snapshot('20261130000000002-shutdown.cfg', { model_store: 'store', job_queue_size: '7' });
    const loaded = load();
    expect(loaded.config).toMatchObject({
      jobQueueSize: 7,
      loadModels: [{ name: 'kit', url: 'kit.mar' }],
      models: { kit: { '1.0': { minWorkers: 2 } } },
      modelsFromSnapshot: true,
    });
    expect(messages(loaded)[0]).toMatch(
      /^info: no configuration file is given, so settings and models are those of this snapshot/,
    );
    expect(loaded.problems[0]?.where).toContain('20261130000000002-shutdown.cfg');
  });

  it('prefers config.properties for settings, and for models when it has changed', () => {
    snapshot('20261130000000001-shutdown.cfg', { model_store: 'store', job_queue_size: '7', load_models: 'kit.mar' });
    writeFileSync(join(cwd, 'config.properties'), 'model_store=store\njob_queue_size=9\nload_models=kit.mar\n');
    const same = load();
    expect(same.config).toMatchObject({
      jobQueueSize: 9,
      modelsFromSnapshot: true,
      models: { kit: { '1.0': { minWorkers: 2 } } },
    });
    writeFileSync(join(cwd, 'config.properties'), 'model_store=store\njob_queue_size=9\nload_models=other.mar\n');
    const changed = load();
    expect(changed.config).toMatchObject({ modelsFromSnapshot: false, loadModels: [{ url: 'other.mar' }] });
    expect(messages(changed)).toContainEqual(expect.stringContaining('config.properties asks for other models than it did then'));
  });

  it('counts what the environment asks for as asked for', () => {
    snapshot('20261130000000001-shutdown.cfg', { model_store: 'store', load_models: 'kit.mar' });
    writeFileSync(join(cwd, 'config.properties'), 'model_store=store\nenable_envvars_config=true\n');
    expect(load({}, { TS_LOAD_MODELS: 'kit.mar' }).config).toMatchObject({ modelsFromSnapshot: true });
    expect(load({}, { TS_LOAD_MODELS: 'other.mar' }).config).toMatchObject({ loadModels: [{ url: 'other.mar' }] });
  });

  it('finds the models of a run that --models began, where the file asks for none', () => {
    writeFileSync(join(cwd, 'config.properties'), 'model_store=store\n');
    const { snapshotValues = new Map<string, string>() } = load({ models: ['kit.mar'] });
    snapshot('20261130000000001-shutdown.cfg', Object.fromEntries(snapshotValues));
    expect(load().config).toMatchObject({ modelsFromSnapshot: true, loadModels: [{ url: 'kit.mar' }] });
  });

  it.each<[string, CommandLineFlags, NodeJS.ProcessEnv]>([
    ['--no-config-snapshots', { ncs: true, modelStore: 'store' }, {}],
    ['--ts-config', { tsConfig: 'own.properties' }, {}],
    ['TS_CONFIG_FILE', {}, { TS_CONFIG_FILE: 'own.properties' }],
  ])('does not look at snapshots with %s', (_, argv, env) => {
    snapshot('20261130000000001-shutdown.cfg', { model_store: 'store' });
    writeFileSync(join(cwd, 'own.properties'), 'model_store=store\n');
    const loaded = load(argv, env);
    expect(loaded.config.loadModels).toEqual([]);
    expect(loaded.problems).toEqual([]);
  });

  it('obeys --models and says that the snapshot is not used', () => {
    snapshot('20261130000000001-shutdown.cfg', { model_store: 'store', job_queue_size: '7' });
    const loaded = load({ modelStore: 'store', models: ['a.mar'] });
    expect(loaded.config).toMatchObject({ jobQueueSize: 100, loadModels: [{ url: 'a.mar' }] });
    expect(messages(loaded)).toEqual(['info: the snapshot of the last run is not used, since --models says what to load']);
  });

  it('lets the command line beat a setting of the snapshot', () => {
    snapshot('20261130000000001-shutdown.cfg', { model_store: 'store', job_queue_size: '7' });
    expect(load({ overrides: { job_queue_size: '3' } }).config.jobQueueSize).toBe(3);
  });

  it('passes over a broken snapshot with a warning', () => {
    snapshot('20261130000000001-startup.cfg', { model_store: 'store' });
    writeFileSync(join(cwd, 'logs', 'config', '20261130000000002-snapshot.cfg'), 'model_snapshot={"models"\\: {');
    writeFileSync(join(cwd, 'logs', 'config', '20261130000000003-snapshot.cfg'), 'model_store=store\n');
    writeFileSync(join(cwd, 'logs', 'config', 'notes.txt'), 'not mine');
    const loaded = load();
    expect(loaded.config.loadModels).toEqual([{ name: 'kit', url: 'kit.mar' }]);
    expect(messages(loaded).filter((text) => text.startsWith('warning'))).toHaveLength(2);
  });

  it('restores from a snapshot that is named as the configuration, TorchServe’s too', () => {
    const text = `#Saving snapshot\n#Mon Nov 30 09:49:39 UTC 2026\nmodel_store=${join(cwd, 'store')}\nnumber_of_gpu=0\npython=/usr/bin/python3\nversion=0.12.0\ntsConfigFile=/x/config.properties\nload_models=kit.mar\nmodel_snapshot={\\n  "name"\\: "20261130094939727-shutdown.cfg",\\n  "modelCount"\\: 2,\\n  "created"\\: 1796032179727,\\n  "models"\\: {\\n    "echo"\\: {\\n      "1.0"\\: {\\n        "defaultVersion"\\: false,\\n        "marName"\\: "echo.mar",\\n        "minWorkers"\\: 1,\\n        "maxWorkers"\\: 1,\\n        "batchSize"\\: 1,\\n        "maxBatchDelay"\\: 100,\\n        "responseTimeout"\\: 120,\\n        "startupTimeout"\\: 120,\\n        "runtimeType"\\: "python"\\n      },\\n      "2.0"\\: {\\n        "defaultVersion"\\: true,\\n        "marName"\\: "echo_v2.0.mar",\\n        "minWorkers"\\: 0,\\n        "maxWorkers"\\: 0,\\n        "batchSize"\\: 1,\\n        "maxBatchDelay"\\: 100,\\n        "responseTimeout"\\: 120,\\n        "startupTimeout"\\: 120,\\n        "runtimeType"\\: "python"\\n      }\\n    }\\n  }\\n}\n`;
    writeFileSync(join(cwd, 'torchserve.cfg'), text);
    const loaded = load({ tsConfig: 'torchserve.cfg' });
    expect(loaded.problems.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(loaded.config).toMatchObject({
      modelsFromSnapshot: true,
      models: { echo: { '2.0': { defaultVersion: true, minWorkers: 0, marName: 'echo_v2.0.mar' } } },
    });
  });
});

describe('what a snapshot keeps of the configuration', () => {
  it('is what somebody set: variables by name, no secrets', () => {
    writeFileSync(
      join(cwd, 'config.properties'),
      'model_store=store\ncors_allowed_origin=$$ORIGIN$$\nkeystore_pass=$$PASS$$\njob_queue_size=5\n',
    );
    const { snapshotValues } = load({ tsConfig: 'config.properties' }, { ORIGIN: 'https://a', PASS: 'changeit' });
    expect(Object.fromEntries(snapshotValues ?? [])).toEqual({
      model_store: join(cwd, 'store'),
      workflow_store: join(cwd, 'store'),
      cors_allowed_origin: '$$ORIGIN$$',
      job_queue_size: '5',
      tsConfigFile: 'config.properties',
    });
  });
});

describe('--log-config', () => {
  const xml = `<Configuration><!-- <Root level="error"/> --><Loggers>
    <Logger name="ACCESS_LOG" level="warn" additivity="false"/><Logger level='DEBUG' name='org.pytorch.serve'/>
    <AsyncLogger name="MODEL_LOG" level="off"/><Root level="info"/></Loggers></Configuration>`;

  it('gives levels, which config.properties beats', () => {
    writeFileSync(join(cwd, 'log4j2.xml'), xml);
    writeFileSync(join(cwd, 'config.properties'), 'model_store=store\nmodel_log_level=error\n');
    const { config, problems } = load({ logConfig: 'log4j2.xml', tsConfig: 'config.properties' });
    expect(config).toMatchObject({ logLevel: 'debug', accessLogLevel: 'warn', modelLogLevel: 'error' });
    expect(problems[0]?.message).toContain('of it log_level=debug, access_log_level=warn is used');
  });

  it('is an error when there is no such file', () => {
    const { problems } = load({ logConfig: 'nowhere.xml', modelStore: 'store' });
    expect(problems).toContainEqual(
      expect.objectContaining({
        severity: 'error',
        where: '--log-config',
        message: 'Cannot read nowhere.xml: there is no such file',
      }),
    );
  });

  it('reads the properties form', () => {
    const text = 'rootLogger.level = warn\nlogger.access.name=ACCESS_LOG\nlogger.access.level=error\n';
    expect(readLog4jLevels(text)).toEqual({ server: 'warn', access: 'error', model: undefined });
  });
});
