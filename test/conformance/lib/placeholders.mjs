// Recordings name addresses, folders and tokens by placeholders; this puts the present values in their place.
import { readFileSync } from 'node:fs';

/**
 * @param {Record<string, string | undefined>} values by placeholder, for example `<inference>`
 * @param {string} [keyFile] token file, read again before each request
 */
export function placeholders(values, keyFile) {
  /** @type {Record<string, string[]>} every key seen so far, oldest first */
  const seen = {};

  function readKeys() {
    if (!keyFile) return;
    let content;
    try {
      content = JSON.parse(readFileSync(keyFile, 'utf8'));
    } catch {
      return; // not written yet, or being rewritten
    }
    for (const kind of ['inference', 'management', 'API']) {
      const list = (seen[kind] ??= []);
      const key = content[kind]?.key;
      if (key && !list.includes(key)) list.push(key);
    }
  }

  /** `<inference-key-2>` is the second inference key; any other suffix means the present one. @param {string} text */
  function keys(text) {
    return text.replace(/<(inference|management|API)-key(?:-(\w+))?>/g, (all, kind, which) => {
      const list = seen[kind] ?? [];
      return (/^\d+$/.test(which ?? '') ? list[Number(which) - 1] : list.at(-1)) ?? all;
    });
  }

  /** @param {string} text */
  function fill(text) {
    let filled = keys(text);
    for (const [name, value] of Object.entries(values)) if (value !== undefined) filled = filled.replaceAll(name, value);
    return filled;
  }

  return { fill, readKeys, currentKey: (/** @type {string} */ kind) => seen[kind]?.at(-1) };
}
