import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { environmentName, serverKeys } from './keys.js';
import { decodeProperties, parseProperties } from './properties.js';
import type { ConfigProblem, Origin } from './server-config.js';
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

function flagValues(argv: CommandLineFlags): Array<[key: string, text: string, where: string]> {
  const found: Array<[string, string, string]> = [];
  if (argv.modelStore !== undefined) found.push(['model_store', argv.modelStore, '--model-store']);
  if (argv.workflowStore !== undefined) found.push(['workflow_store', argv.workflowStore, '--workflow-store']);
  if (argv.models !== undefined && argv.models.length > 0) found.push(['load_models', argv.models.join(','), '--models']);
  return found;
}

function readFile({ argv, env, cwd }: ConfigInput, problems: ConfigProblem[]): Map<string, SourcedText> {
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
  let source: string;
  try {
    source = decodeProperties(readFileSync(resolve(cwd, label)));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isOptional = fromEnv === undefined && argv.tsConfig === undefined && code === 'ENOENT';
    const why = code === 'ENOENT' ? 'there is no such file' : message;
    if (!isOptional)
      problems.push({
        severity: 'error',
        key: givenBy,
        where: givenBy,
        message: `Cannot read the configuration file ${label}: ${why}`,
      });
    return new Map();
  }
  const { properties, issues } = parseProperties(source);
  for (const { severity, key, line, message } of issues) problems.push({ severity, key, where: `${label}:${line}`, message });
  const values = new Map<string, SourcedText>();
  for (const { key, value, line, raw } of properties.values()) {
    const where = `${label}:${line}`;
    const text = value.replaceAll(/\$\$([^$]+)\$\$/g, (whole, name: string) => {
      const replacement = env[name.trim()];
      if (replacement !== undefined) return replacement;
      problems.push({ severity: 'error', key, where, message: `${key} uses $$${name}$$, but the environment has no ${name}` });
      return whole;
    });
    values.set(key, { text, raw, origin: { source: 'file', where } });
  }
  return values;
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
