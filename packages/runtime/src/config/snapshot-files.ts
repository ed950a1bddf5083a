import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeProperties, parseProperties, type Property } from './properties.js';
import type { ConfigProblem } from './server-config.js';
import { snapshotName } from './snapshot-format.js';

export interface FoundSnapshot {
  readonly path: string;
  readonly properties: ReadonlyMap<string, Property>;
}

/** Folder of the snapshots under the folder of the logs. */
export function snapshotFolder(logLocation: string): string {
  return join(logLocation, 'config');
}

/**
 * The newest snapshot that can be used; a broken one is skipped with a warning.
 * @returns undefined when there is none
 */
export function findSnapshot(folder: string, problems: ConfigProblem[]): FoundSnapshot | undefined {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return undefined;
  }
  for (const name of names
    .filter((it) => snapshotName.test(it))
    .sort()
    .reverse()) {
    const path = join(folder, name);
    try {
      const { properties } = parseProperties(decodeProperties(readFileSync(path)));
      const text = properties.get('model_snapshot')?.value;
      if (text === undefined) throw new Error('it has no model_snapshot');
      const { models } = JSON.parse(text) as { models?: unknown };
      if (typeof models !== 'object' || models === null) throw new Error('its model_snapshot has no models');
      return { path, properties };
    } catch (error) {
      problems.push({
        severity: 'warning',
        key: 'model_snapshot',
        where: path,
        message: `the snapshot cannot be used and is passed over: ${(error as Error).message}`,
      });
    }
  }
  return undefined;
}
