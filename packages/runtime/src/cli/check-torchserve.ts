import type { Command } from 'commander';
import type { GivenParts } from '../moving/find-parts.js';

interface Flags extends GivenParts {
  readonly fromTorchserve: string;
  readonly write?: string;
  readonly json?: boolean;
}

/** Exit status when there is something left to do. */
const workLeft = 3;

/** `check --from-torchserve`: what becomes of a TorchServe directory. */
export async function runCheckTorchServe(command: Command): Promise<void> {
  const flags = command.opts<Flags>();
  // Loaded here, so that the other commands do not pay for it.
  const { checkTorchServe } = await import('../moving/check-torchserve.js');
  const { formatReport } = await import('../moving/report-text.js');
  const { tsConfig, modelStore, workflowStore, write } = flags;
  const report = await checkTorchServe({
    directory: flags.fromTorchserve,
    tsConfig,
    modelStore,
    workflowStore,
    write,
    env: process.env,
  });
  process.stdout.write(flags.json === true ? `${JSON.stringify(report, undefined, 2)}\n` : formatReport(report));
  if (report.summary.error > 0) process.exitCode = 1;
  else if (report.summary.work > 0) process.exitCode = workLeft;
}
