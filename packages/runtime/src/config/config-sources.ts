import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { environmentName, serverKeys } from './keys.js';
import { readLog4jLevels } from './log4j.js';
import { decodeProperties, parseProperties, type Property } from './properties.js';
import type { ConfigProblem, Origin } from './server-config.js';
import { findSnapshot, snapshotFolder } from './snapshot-files.js';
import { nearest } from './suggest.js';

/** The command line, as far as the configuration needs it. */
export interface CommandLineFlags {
  readonly tsConfig?: string;
  readonly modelStore?: string;
  readonly workflowStore?: string;
  readonly models?: readonly string[];
  readonly foreground?: boolean;
  readonly ncs?: boolean;
  readonly disableTokenAuth?: boolean;
  readonly enableModelApi?: boolean;
  readonly logConfig?: string;
  /** Keys of config.properties, from `--set`; nothing beats them. */
  readonly overrides?: Readonly<Record<string, string>>;
}

export interface ConfigInput {
  readonly argv: CommandLineFlags;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
}

/** A value before it is read, and where it came from. */
export interface SourcedText {
  readonly text: string;
  /** Before escapes were resolved; files only. */
  readonly raw?: string;
  /** Before variables were put in; only where there were some. */
  readonly original?: string;
  readonly origin: Origin;
}

export interface Sources {
  readonly values: ReadonlyMap<string, SourcedText>;
  readonly problems: readonly ConfigProblem[];
}

/** Collects the text of every key from file, command line and environment, the strongest source winning. */
export function collectSources({ argv, env, cwd }: ConfigInput): Sources {
  const problems: ConfigProblem[] = [];
  const values = new Map(readFile({ argv, env, cwd }, problems));
  // TorchServe's flags may still be replaced by the environment; overrides may not.
  for (const [key, text, where] of flagValues(argv)) values.set(key, { text, origin: { source: 'command line', where } });
  if (argv.logConfig !== undefined) readLogConfig(argv.logConfig, cwd, values, problems);
  for (const [key, text] of Object.entries(argv.overrides ?? {}))
    if (key === 'enable_envvars_config' || key === 'use_env_allowed_urls')
      values.set(key, { text, origin: { source: 'command line', where: `--set ${key}` } });
  readEnvironment(env, values, problems);
  for (const [key, given, where] of [
    ['disable_token_authorization', argv.disableTokenAuth, '--disable-token-auth'],
    ['enable_model_api', argv.enableModelApi, '--enable-model-api'],
  ] as const)
    if (given && values.get(key)?.text.trim().toLowerCase() !== 'true')
      values.set(key, { text: 'true', origin: { source: 'command line', where } });
  for (const [key, text] of Object.entries(argv.overrides ?? {}))
    values.set(key, { text, origin: { source: 'command line', where: `--set ${key}` } });
  return { values, problems };
}

/** Of a log4j2 file the levels count, where config.properties does not set them itself. */
function readLogConfig(file: string, cwd: string, values: Map<string, SourcedText>, problems: ConfigProblem[]): void {
  const report = (severity: ConfigProblem['severity'], message: string) =>
    problems.push({ severity, key: 'log_level', where: '--log-config', message });
  let text: string;
  try {
    text = readFileSync(resolve(cwd, file), 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    report('error', `Cannot read ${file}: ${code === 'ENOENT' ? 'there is no such file' : message}`);
    return;
  }
  const { server, access, model } = readLog4jLevels(text);
  const taken: string[] = [];
  for (const [key, level] of Object.entries({ log_level: server, access_log_level: access, model_log_level: model })) {
    if (level === undefined || values.has(key)) continue;
    values.set(key, { text: level, origin: { source: 'command line', where: `--log-config ${file}` } });
    taken.push(`${key}=${level}`);
  }
  const what = taken.length === 0 ? 'no level of it is used' : `of it ${taken.join(', ')} is used`;
  report('info', `${file} is a log4j2 file: ${what}; appenders and patterns mean nothing here, see log_format and log_location`);
}

function flagValues(argv: CommandLineFlags): Array<[key: string, text: string, where: string]> {
  const found: Array<[string, string, string]> = [];
  if (argv.modelStore !== undefined) found.push(['model_store', argv.modelStore, '--model-store']);
  if (argv.workflowStore !== undefined) found.push(['workflow_store', argv.workflowStore, '--workflow-store']);
  if (argv.models !== undefined && argv.models.length > 0) found.push(['load_models', argv.models.join(','), '--models']);
  return found;
}

/** The configuration file, which a snapshot completes or takes the place of when nobody names one. */
function readFile(input: ConfigInput, problems: ConfigProblem[]): Map<string, SourcedText> {
  const { argv, env, cwd } = input;
  const fromEnv = env['TS_CONFIG_FILE'] === '' ? undefined : env['TS_CONFIG_FILE'];
  const label = fromEnv ?? argv.tsConfig ?? 'config.properties';
  const givenBy = fromEnv === undefined ? '--ts-config' : 'TS_CONFIG_FILE';
  if (fromEnv !== undefined && argv.tsConfig !== undefined && argv.tsConfig !== fromEnv)
    problems.push({
      severity: 'warning',
      key: 'TS_CONFIG_FILE',
      where: 'TS_CONFIG_FILE',
      message: `TS_CONFIG_FILE names ${fromEnv}, so --ts-config ${argv.tsConfig} is not read`,
    });
  const isNamed = fromEnv !== undefined || argv.tsConfig !== undefined;
  let source: string | undefined;
  try {
    source = decodeProperties(readFileSync(resolve(cwd, label)));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : message;
    if (isNamed || code !== 'ENOENT')
      problems.push({
        severity: 'error',
        key: givenBy,
        where: givenBy,
        message: `Cannot read the configuration file ${label}: ${why}`,
      });
  }
  const values = new Map<string, SourcedText>();
  if (source !== undefined) {
    const { properties, issues } = parseProperties(source);
    for (const { severity, key, line, message } of issues) problems.push({ severity, key, where: `${label}:${line}`, message });
    addProperties(properties, label, env, values, problems);
  }
  if (!isNamed && argv.ncs !== true) addSnapshot(input, source !== undefined, values, problems);
  return values;
}

function addProperties(
  properties: ReadonlyMap<string, Property>,
  label: string,
  env: NodeJS.ProcessEnv,
  values: Map<string, SourcedText>,
  problems: ConfigProblem[],
): void {
  for (const { key, value, line, raw } of properties.values()) {
    const where = `${label}:${line}`;
    const text = value.replaceAll(/\$\$([^$]+)\$\$/g, (whole, name: string) => {
      const replacement = env[name.trim()];
      if (replacement !== undefined) return replacement;
      problems.push({ severity: 'error', key, where, message: `${key} uses $$${name}$$, but the environment has no ${name}` });
      return whole;
    });
    values.set(key, { text, raw, ...(text === value ? {} : { original: value }), origin: { source: 'file', where } });
  }
}

/** The last snapshot. A file that was written by hand beats its settings, and its models when the file asks for others than it did then. */
function addSnapshot(
  { argv, env, cwd }: ConfigInput,
  hasFile: boolean,
  values: Map<string, SourcedText>,
  problems: ConfigProblem[],
): void {
  const location =
    argv.overrides?.['log_location'] ?? (env['LOG_LOCATION'] || undefined) ?? values.get('log_location')?.text.trim() ?? 'logs';
  const folder = snapshotFolder(resolve(cwd, location));
  const explicit = (argv.models?.length ?? 0) > 0 || argv.overrides?.['load_models'] !== undefined;
  const found = findSnapshot(folder, explicit ? [] : problems);
  if (found === undefined) return;
  const tell = (message: string) => problems.push({ severity: 'info', key: 'model_snapshot', where: found.path, message });
  if (explicit) {
    tell('the snapshot of the last run is not used, since --models says what to load');
    return;
  }
  const setting = (key: string) => argv.overrides?.[key] ?? values.get(key)?.text;
  const byEnvironment = setting('enable_envvars_config')?.trim().toLowerCase() === 'true';
  const same = (key: string) => {
    const fromEnvironment = byEnvironment ? env[environmentName(key)] || undefined : undefined;
    return (fromEnvironment ?? values.get(key)?.original ?? values.get(key)?.text) === found.properties.get(key)?.value;
  };
  if (hasFile && !(same('load_models') && same('models'))) {
    tell('the snapshot of the last run is not used, since config.properties asks for other models than it did then');
    return;
  }
  const without = '--ts-config FILE or --no-config-snapshots starts without it';
  tell(
    hasFile
      ? `the models are those of this snapshot of the last run, all other settings those of config.properties; ${without}`
      : `no configuration file is given, so settings and models are those of this snapshot of the last run; ${without}`,
  );
  const wanted = new Map([...found.properties].filter(([key]) => (hasFile ? key === 'model_snapshot' : true)));
  addProperties(wanted, found.path, env, values, problems);
}

function readEnvironment(env: NodeJS.ProcessEnv, values: Map<string, SourcedText>, problems: ConfigProblem[]): void {
  const isOn = (key: string) => values.get(key)?.text.trim().toLowerCase() === 'true';
  const enabled = isOn('enable_envvars_config');
  for (const spec of serverKeys) {
    const name = environmentName(spec.name);
    const text = env[name];
    if (text === undefined || text === '' || name === 'TS_CONFIG_FILE') continue;
    const isUrls = spec.name === 'allowed_urls';
    if (spec.environment && (isUrls ? isOn('use_env_allowed_urls') : enabled)) {
      values.set(spec.name, { text, origin: { source: 'environment', where: name } });
      continue;
    }
    if (spec.status !== 'used') continue;
    const needed = isUrls ? 'use_env_allowed_urls=true' : 'enable_envvars_config=true';
    const message = spec.environment
      ? `${name} is set but has no effect without ${needed} in the configuration file`
      : `${name} is set but has no effect: ${spec.name} can only be set in the configuration file`;
    problems.push({ severity: 'info', key: spec.name, where: name, message });
  }
  if (enabled) reportUnknownVariables(env, problems);
  for (const [key, name] of [
    ['log_location', 'LOG_LOCATION'],
    ['metrics_location', 'METRICS_LOCATION'],
  ] as const) {
    const text = env[name];
    if (text !== undefined && text !== '') values.set(key, { text, origin: { source: 'environment', where: name } });
  }
}

/** Other programs have TS_ variables too, so only those near a key are worth a word. */
function reportUnknownVariables(env: NodeJS.ProcessEnv, problems: ConfigProblem[]): void {
  const known = new Set(serverKeys.map(({ name }) => environmentName(name)).concat('TS_CONFIG_FILE'));
  for (const name of Object.keys(env)) {
    if (!name.startsWith('TS_') || known.has(name)) continue;
    const meant = nearest(name, known);
    if (meant !== undefined)
      problems.push({
        severity: 'warning',
        key: name,
        where: name,
        message: `${name} is unknown and ignored; did you mean ${meant}?`,
      });
  }
}
