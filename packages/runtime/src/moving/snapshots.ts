import { readdir } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { loadConfig } from '../config/load-config.js';
import { finding, type MovingFinding, shellWord } from './report.js';

/** Names of the snapshots of a folder, the newest last. */
async function snapshotNames(directory: string): Promise<string[]> {
  const names = await readdir(join(directory, 'logs', 'config')).catch(() => []);
  return names.filter((name) => /^\d{17}-(startup|snapshot|shutdown)\.cfg$/.test(name)).sort();
}

/** What TorchServe starts from without a configuration file; absolute. */
export async function newestSnapshot(directory: string): Promise<string | undefined> {
  const newest = (await snapshotNames(directory)).at(-1);
  return newest === undefined ? undefined : join(directory, 'logs', 'config', newest);
}

/** Looks at `logs/config`, where TorchServe wrote its state. */
export async function snapshotFindings(
  directory: string,
  store: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<MovingFinding[]> {
  const names = await snapshotNames(directory);
  const newest = names.at(-1);
  if (newest === undefined) return [];
  const path = join(directory, 'logs', 'config', newest);
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
  return [
    finding(notes.length > 0 ? 'work' : 'works', `logs/config/${newest}`, `restores ${what}${others}`, {
      notes,
      steps: [
        {
          what: 'Start from it, with its settings and models.',
          commands: [
            `onnxserve start --ts-config ${shellWord(here(path))}${store === undefined ? '' : ` --model-store ${shellWord(here(store))}`}`,
          ],
        },
      ],
    }),
  ];
}

function here(path: string): string {
  return relative(process.cwd(), path) || '.';
}
