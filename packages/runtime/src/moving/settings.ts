import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { findKey } from '../config/keys.js';
import type { KeySpec } from '../config/key-spec.js';
import type { LoadedConfig } from '../config/server-config.js';
import { changedDefaults } from './changed-defaults.js';
import { finding, type MovingFinding } from './report.js';

/** Characters of a value that are shown. */
const longest = 60;

/** Keys whose values must not be shown, though the server needs them. */
const hidden = (spec: KeySpec | undefined, text: string) => (spec?.secret === true && text !== '' ? '***' : text);

/**
 * What becomes of each key of the file, and of the defaults that nobody set.
 * @param directory what relative paths are relative to
 * @param texts the file's values by key
 */
export function settingFindings(directory: string, loaded: LoadedConfig, texts: ReadonlyMap<string, string>): MovingFinding[] {
  const findings: MovingFinding[] = [];
  const told = new Set<string>();
  for (const { severity, key, where, message } of loaded.problems) {
    // Problems of the model store are told where the store is looked at.
    if (key === 'model_store' || key === 'workflow_store') continue;
    told.add(key.split('.')[0]!);
    const status = severity === 'error' ? 'work' : 'differs';
    findings.push(finding(status, shown(key, texts), message, { where }));
  }
  for (const [key, text] of texts) {
    if (told.has(key)) continue;
    const spec = findKey(key);
    if (spec === undefined) continue;
    const { source, where } = loaded.origins.get(key) ?? {};
    const missing = spec.value.kind === 'path' && text.trim() !== '' && !existsSync(resolve(directory, text.trim()));
    const notes = missing ? ['there is no such path on this machine'] : [];
    findings.push(finding('works', shown(key, texts), 'as it is', { where: source === 'file' ? where : undefined, notes }));
  }
  return findings;
}

/** Defaults that are not TorchServe's, for keys that the file leaves alone. */
export function defaultFindings(texts: ReadonlyMap<string, string>): MovingFinding[] {
  return changedDefaults
    .filter(({ key }) => !texts.has(key))
    .map(({ key, torchserve, here, why, restore }) =>
      finding('differs', key, `not set; TorchServe's default was ${torchserve}, here it is ${here}. ${why}`, {
        notes: [`as before: ${restore}`],
      }),
    );
}

function shown(key: string, texts: ReadonlyMap<string, string>): string {
  const text = texts.get(key);
  if (text === undefined) return key;
  const value = hidden(findKey(key), text);
  return `${key}=${value.length > longest ? `${value.slice(0, longest)}…` : value}`;
}
