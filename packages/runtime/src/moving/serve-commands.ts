import { join, relative } from 'node:path';
import { shellWord } from './report.js';

/** What there is to serve; paths are absolute, but for `output`. */
export interface ToServe {
  /** Archives that work as they are. */
  readonly models: readonly string[];
  readonly workflows: readonly string[];
  /** Whether new archives take the place of others. */
  readonly changed: boolean;
  readonly modelStore: string | undefined;
  /** Undefined: nothing needs one. */
  readonly workflowStore: string | undefined;
  readonly configFile: string | undefined;
  /** A metrics file that is not where the configuration says. */
  readonly metricsFile: string | undefined;
  readonly output: string;
}

/**
 * Commands that serve it, typed where the check was run. Archives that work are put beside the new ones: the old store stays as it is
 * for the server that still runs.
 */
export function serveCommands(what: ToServe): string[] {
  if (what.modelStore === undefined) return [];
  const here = (path: string) => shellWord(relative(process.cwd(), path) || '.');
  const target = shellWord(join(what.output, 'model-store'));
  const flags = [`--model-store ${what.changed ? target : here(what.modelStore)}`];
  if (what.workflowStore !== undefined) flags.push(`--workflow-store ${what.changed ? target : here(what.workflowStore)}`);
  if (what.configFile !== undefined) flags.push(`--ts-config ${here(what.configFile)}`);
  if (what.metricsFile !== undefined) flags.push(`--set metrics_config=${here(what.metricsFile)}`);
  const copied = [...what.models, ...what.workflows].map(here);
  return [
    ...(what.changed && copied.length > 0 ? [`mkdir -p ${target}`, `cp -r ${copied.join(' ')} ${target}`] : []),
    `onnxserve start ${flags.join(' ')}`,
  ];
}
