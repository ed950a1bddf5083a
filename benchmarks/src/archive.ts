import { execFile } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { noopModel } from './noop-model.js';
import { command, root } from './paths.js';
import type { Workload } from './workloads.js';

export interface ModelSettings {
  readonly workers: number;
  readonly batchSize: number;
}

/** Equal terms with a bare server: so many workers, one thread each, no spinning. */
export function modelConfig({ workers, batchSize }: ModelSettings): string {
  return `minWorkers: ${workers}
maxWorkers: ${workers}
batchSize: ${batchSize}
jobQueueSize: 1000
responseTimeout: 60
onnx:
  intraOpNumThreads: 1
  interOpNumThreads: 1
  configEntries:
    session.intra_op.allow_spinning: '0'
`;
}

/** Makes `STORE/NAME.mar`. @throws with the archiver's output when it fails */
export async function makeArchive(workload: Workload, settings: ModelSettings, folder: string, store: string): Promise<void> {
  const { name } = workload;
  await mkdir(store, { recursive: true });
  const model = join(folder, `${name}.onnx`);
  const config = join(folder, `${name}.yaml`);
  await (workload.model === undefined ? writeFile(model, noopModel()) : copyFile(workload.model, model));
  await writeFile(config, modelConfig(settings));
  const handler = join(root, 'benchmarks', 'handlers', `${name}.ts`);
  const args = ['archive', '--model-name', name, '--version', '1.0', '--serialized-file', model, '--handler', handler];
  if (workload.extraFiles.length > 0) args.push('--extra-files', workload.extraFiles.join(','));
  args.push('--config-file', config, '--export-path', store, '--archive-format', 'zip-store', '--force');
  await promisify(execFile)(process.execPath, [command, ...args]);
}
