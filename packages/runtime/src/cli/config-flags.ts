import type { Command } from 'commander';
import { type CommandLineFlags, loadConfig } from '../config/load-config.js';
import type { LoadedConfig } from '../config/server-config.js';

interface Flags {
  tsConfig?: string;
  modelStore?: string;
  workflowStore?: string;
  models?: string[];
  foreground?: boolean;
  configSnapshots?: boolean;
  disableTokenAuth?: boolean;
  enableModelApi?: boolean;
  logConfig?: string;
  set?: string[];
}

/** The flags that `start` and `check` share: TorchServe's, and `--set` for every key of config.properties. */
export function addConfigFlags(command: Command): Command {
  return command
    .option('--ts-config <file>', 'configuration file; default $TS_CONFIG_FILE, then ./config.properties with the last snapshot')
    .option('--model-store <dir>', 'folder with the model archives')
    .option('--workflow-store <dir>', 'folder with the workflow archives; default the model store')
    .option('--models <model...>', '[name=]archive entries to load at start-up, or all')
    .option('--log-config <file>', 'log4j2 file; its levels count where the configuration sets none')
    .option('--cpp-log-config <file>', 'accepted for compatibility; without effect')
    .option('--plugins-path <paths>', 'accepted for compatibility; without effect')
    .option('--foreground', 'stay in the foreground')
    .option('--no-config-snapshots', 'write and read no snapshots')
    .option('--disable-token-auth', 'turn token authorization off')
    .option('--enable-model-api', 'allow register and unregister over the network')
    .option('--set <key=value...>', 'any key of config.properties; beats every other source');
}

/** @throws {Error} when a `--set` is not `key=value` */
export function readConfig(command: Command): { loaded: LoadedConfig; foreground: boolean; snapshots: boolean } {
  const given = command.opts<Flags>();
  const overrides = (given.set ?? []).map((entry) => {
    const at = entry.indexOf('=');
    if (at <= 0) throw new Error(`--set wants key=value, got "${entry}"`);
    return [entry.slice(0, at).trim(), entry.slice(at + 1).trim()];
  });
  const argv: CommandLineFlags = {
    tsConfig: given.tsConfig,
    modelStore: given.modelStore,
    workflowStore: given.workflowStore,
    models: given.models,
    foreground: given.foreground,
    ncs: given.configSnapshots === false,
    disableTokenAuth: given.disableTokenAuth,
    enableModelApi: given.enableModelApi,
    logConfig: given.logConfig,
    overrides: Object.fromEntries(overrides) as Record<string, string>,
  };
  return {
    loaded: loadConfig({ argv, env: process.env, cwd: process.cwd() }),
    foreground: given.foreground === true,
    snapshots: given.configSnapshots !== false,
  };
}

/** Prints what is wrong with a configuration. @returns whether a server can start with it */
export function reportProblems(loaded: LoadedConfig): boolean {
  for (const { severity, where, message } of loaded.problems) {
    console.error(`onnxserve: ${severity}: ${where === undefined ? '' : `${where}: `}${message}`);
  }
  return !loaded.problems.some(({ severity }) => severity === 'error');
}
