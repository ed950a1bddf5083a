import type { Command } from 'commander';
import { formatEffectiveConfig } from '../config/effective.js';
import type { ServerConfig } from '../config/server-config.js';
import { toServeError } from '../domain/errors.js';
import { runCheckTorchServe } from './check-torchserve.js';
import { addConfigFlags, readConfig, reportProblems } from './config-flags.js';

const exitStatus = `
Exit status: 0 all is well, 1 something is wrong or cannot be read; with --from-torchserve also 3: there is work left.`;

export function addCheck(program: Command): void {
  addConfigFlags(
    program
      .command('check')
      .description(
        'print the effective configuration with the origin of each value, open every start-up archive, and say what is wrong',
      )
      .option('--from-torchserve <dir>', 'say what becomes of a TorchServe directory: settings, archives, workflows, snapshots')
      .option(
        '--write <dir>',
        'with --from-torchserve: unpack there what is to be worked on, with export scripts and handlers to write',
      )
      .option('--json', 'with --from-torchserve: print the report as JSON')
      .addHelpText('after', exitStatus),
  ).action(async (options: { fromTorchserve?: string; write?: string; json?: boolean }, command: Command) => {
    if (options.fromTorchserve !== undefined) return await runCheckTorchServe(command);
    if (options.write !== undefined || options.json === true)
      throw new Error('--write and --json belong to --from-torchserve DIR');
    const { loaded } = readConfig(command);
    console.log(formatEffectiveConfig(loaded));
    const valid = reportProblems(loaded);
    const metrics = valid ? await checkMetricsConfig(loaded.config) : true;
    const opened = valid ? await checkArchives(loaded.config) : true;
    if (!valid || !metrics || !opened) process.exitCode = 1;
  });
}

/** @returns whether the file of metrics_config, if there is one, is what it should be */
async function checkMetricsConfig({ metricsConfig }: ServerConfig): Promise<boolean> {
  if (metricsConfig === undefined) return true;
  const { readMetricsConfig } = await import('../metrics/metrics-config.js');
  try {
    readMetricsConfig(metricsConfig);
    return true;
  } catch (error) {
    for (const line of (error as Error).message.split('\n')) console.error(`onnxserve: error: ${line}`);
    return false;
  }
}

/** Opens what would be loaded at start, as far as that goes without running it. @returns whether all of it can be */
async function checkArchives(config: ServerConfig): Promise<boolean> {
  // Loaded here, so that the other commands do not pay for it.
  const { openArchive } = await import('../registry/open-archive.js');
  const { startupModels } = await import('../serving/startup.js');
  const env = {
    modelStore: config.modelStore,
    tempDirectory: config.tempDirectory,
    allowedUrls: config.allowedUrls,
    limits: { maxArchiveSize: config.maxArchiveSize, maxArchiveRatio: config.maxArchiveRatio },
  };
  let all = true;
  try {
    for (const { url, modelName } of await startupModels(config, 1)) {
      try {
        const archive = await openArchive({ url, modelName, defaultHandler: config.defaultServiceHandler, trusted: true }, env);
        const { handler } = archive;
        const by = handler.kind === 'module' ? 'a handler of its own' : handler.kind === 'bundled' ? handler.name : 'tensors';
        console.log(`✓ ${url}: model "${archive.name}" version ${archive.version}, ${by}`);
        for (const warning of archive.warnings) console.error(`onnxserve: warning: ${url}: ${warning}`);
        await (archive.close?.() ?? archive.dispose());
      } catch (error) {
        all = false;
        console.error(`onnxserve: error: ${url}: ${toServeError(error).message}`);
      }
    }
  } catch (error) {
    all = false;
    console.error(`onnxserve: error: ${toServeError(error).message}`);
  }
  return all;
}
