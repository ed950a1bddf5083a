import { readdir } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../config/load-config.js';
import { finding, type MovingFinding, shellWord } from './report.js';

export interface Snapshots {
  readonly findings: readonly MovingFinding[];
  /** The newest one, from which TorchServe started without a configuration file; absolute. */
  readonly newest: string | undefined;
}

/** Looks at `logs/config`, where TorchServe wrote its state. */
export async function snapshotFindings(directory: string, store: string | undefined, env: NodeJS.ProcessEnv): Promise<Snapshots> {
  const folder = join(directory, 'logs', 'config');
  const names = (await readdir(folder).catch(() => []))
    .filter((name) => /^\d{17}-(startup|snapshot|shutdown)\.cfg$/.test(name))
    .sort();
  const newest = names.at(-1);
  if (newest === undefined) return { findings: [], newest: undefined };
  const path = join(folder, newest);
  const { config, problems } = loadConfig({
    argv: { tsConfig: path, ...(store === undefined ? {} : { modelStore: store }) },
    env,
    cwd: directory,
  });
  const errors = problems.filter(({ severity, key }) => severity === 'error' && key.startsWith('model_snapshot'));
  const notes = [...new Set(errors.map(({ message }) => message))];
  const entries = config.loadModels === 'all' ? [] : config.loadModels;
  const missing = entries.filter(({ url }) => store === undefined || !existsSync(join(store, url)));
  if (missing.length > 0) notes.push(`not in the model store: ${missing.map(({ url }) => url).join(', ')}`);
  const what = entries.map(({ name, url }) => `${name}=${url}`).join(', ') || 'no models';
  const others = names.length === 1 ? '' : `; the ${names.length - 1} older ones are not read`;
  return {
    newest: path,
    findings: [
      finding(notes.length > 0 ? 'work' : 'works', `logs/config/${newest}`, `restores ${what}${others}`, {
        notes,
        steps: [
          {
            what: 'Start from it, with its settings and models.',
            commands: [`onnxserve --start --ts-config ${shellWord(path)}`],
          },
        ],
      }),
    ],
  };
}
