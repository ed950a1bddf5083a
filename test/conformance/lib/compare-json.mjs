// Compares a recorded JSON value with a received one: extra keys are welcome, sentences for people are free, numbers match to 1e-6.

/** @param {string} text */
const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
/** @param {unknown} value */
const show = (value) => (JSON.stringify(value) ?? 'nothing').slice(0, 160);

/**
 * Keys that hold a sentence: the message of an error body, `error`, the only `status` of a management answer.
 * @param {Record<string, unknown>} value
 */
function sentenceKeys(value) {
  const keys = Object.keys(value);
  if (keys.length === 3 && keys.includes('code') && keys.includes('type') && typeof value.message === 'string')
    return ['message'];
  if (typeof value.error === 'string') return ['error'];
  if (keys.length === 1 && typeof value.status === 'string' && /\s/.test(value.status)) return ['status'];
  return [];
}

/** @param {unknown} want @param {unknown} got @param {string} path */
function scalarDifference(want, got, path) {
  if (typeof want === 'string' && want.includes('<any>')) {
    const pattern = new RegExp(`^${want.split('<any>').map(escape).join('[^]*')}$`);
    return typeof got === 'string' && pattern.test(got) ? undefined : `${path}: wanted ${show(want)}, got ${show(got)}`;
  }
  if (typeof want === 'number' && typeof got === 'number') {
    if (want === got || Math.abs(want - got) <= 1e-6 * Math.abs(want)) return undefined;
  }
  return Object.is(want, got) ? undefined : `${path}: wanted ${show(want)}, got ${show(got)}`;
}

/**
 * @param {any} want
 * @param {any} got
 * @param {string} [path]
 * @returns {string | undefined} the first difference
 */
export function jsonDifference(want, got, path = '$') {
  if (want === '<any>') return undefined;
  if (want === null || typeof want !== 'object') return scalarDifference(want, got, path);
  if (got === null || typeof got !== 'object' || Array.isArray(want) !== Array.isArray(got)) {
    return `${path}: wanted ${show(want)}, got ${show(got)}`;
  }
  if (Array.isArray(want) && want.length !== got.length) return `${path}: wanted ${want.length} items, got ${got.length}`;
  const sentences = Array.isArray(want) ? [] : sentenceKeys(want);
  for (const key of Object.keys(want)) {
    const at = Array.isArray(want) ? `${path}[${key}]` : `${path}.${key}`;
    if (!(key in got)) return `${at}: missing`;
    if (sentences.includes(key)) {
      if (typeof got[key] !== 'string' || got[key] === '') return `${at}: wanted some text, got ${show(got[key])}`;
      continue;
    }
    const difference = jsonDifference(want[key], got[key], at);
    if (difference) return difference;
  }
  return undefined;
}
