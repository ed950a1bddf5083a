import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type MetricsConfig, readMetricsConfig } from '../metrics/metrics-config.js';
import { finding, type MovingFinding } from './report.js';

export interface MetricsFile {
  /** Absolute; undefined: there is none. */
  readonly path: string | undefined;
  /** What metrics_config says, absolute. */
  readonly named: string | undefined;
  /** It is not where metrics_config says, but beside the configuration. */
  readonly moved: boolean;
}

/** Finds the file of metrics_config, whose path is often one of a container, else `metrics.yaml` of the folder. */
export function findMetricsFile(directory: string, named: string | undefined): MetricsFile {
  const beside = join(directory, named === undefined ? 'metrics.yaml' : basename(named));
  if (named !== undefined && existsSync(named)) return { path: named, named, moved: false };
  if (existsSync(beside)) return { path: beside, named, moved: named !== undefined };
  return { path: undefined, named, moved: false };
}

export function metricsFindings({ path: found, named }: MetricsFile): MovingFinding[] {
  if (named !== undefined && found === undefined)
    return [finding('error', basename(named), `metrics_config ${named} does not exist`)];
  const own = finding(
    'works',
    'names',
    'ts_inference_requests_total, Requests2XX and the others keep their names, labels and units',
  );
  if (found === undefined) return [own];
  let config: MetricsConfig;
  try {
    config = readMetricsConfig(found);
  } catch (error) {
    const lines = (error as Error).message.split('\n');
    return [own, finding('work', basename(found), 'has to be changed before a server starts with it', { notes: lines })];
  }
  const server = [...(config.server?.keys() ?? [])];
  const model = [...config.model.keys()];
  const notes = [
    ...(server.length === 0 ? [] : [`of the server: ${server.join(', ')}`]),
    ...(model.length === 0 ? [] : [`of handlers: ${model.join(', ')}`]),
    ...(named === undefined ? ['no setting names it; metrics_config does'] : []),
  ];
  return [own, finding('works', basename(found), 'as it is', { notes })];
}
