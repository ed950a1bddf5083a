import { findKey } from './keys.js';
import type { LoadedConfig, Origin } from './server-config.js';

/** The effective configuration as a table `key = value  (origin)`; secrets and passwords in URLs are hidden. */
export function formatEffectiveConfig(loaded: LoadedConfig): string {
  const rows = [...(loaded.texts ?? [])].map(([key, text]) => ({
    key,
    value: redact(key, text),
    origin: showOrigin(loaded.origins.get(key)),
  }));
  const keyWidth = Math.max(0, ...rows.map((row) => row.key.length));
  // One long JSON must not push every origin off the screen.
  const valueWidth = Math.min(48, Math.max(0, ...rows.map((row) => row.value.length)));
  return rows.map(({ key, value, origin }) => `${key.padEnd(keyWidth)} = ${value.padEnd(valueWidth)}  (${origin})\n`).join('');
}

function redact(key: string, text: string): string {
  if (findKey(key)?.secret && text !== '') return '***';
  return text.replaceAll(/(:\/\/[^\s/@:,]*):[^\s/@,]+@/g, '$1:***@').replaceAll(/\s*\n\s*/g, ' ');
}

function showOrigin(origin: Origin | undefined): string {
  if (!origin) return 'default';
  return origin.where === undefined ? origin.source : `${origin.source}: ${origin.where}`;
}
