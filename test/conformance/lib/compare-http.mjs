// Decides whether an answer is the recorded one where it counts. The rules stand in README.md.
import { gunzipSync, inflateSync } from 'node:zlib';
import { jsonDifference } from './compare-json.mjs';
import { isMetricsText, metricsDifference } from './compare-metrics.mjs';

// Differ from run to run, or belong to one HTTP library.
const ignoredHeaders = new Set(
  (
    'date server content-length connection keep-alive expires pragma cache-control ' +
    'transfer-encoding x-request-id vary etag content-encoding accept-encoding'
  ).split(' '),
);

/** @typedef {{ status?: number | number[], body?: 'same', why: string }} Deviation */

/** @param {any} recorded @param {Record<string, string[]>} got @param {(text: string) => string} fill */
function headerDifference(recorded, got, fill) {
  const pairs = Array.isArray(recorded) ? recorded : Object.entries(recorded ?? {});
  for (const [name, value] of pairs) {
    const key = String(name).toLowerCase();
    if (ignoredHeaders.has(key)) continue;
    const have = (got[key] ?? []).join(', ');
    // Of a content type only the type counts.
    const normal = (/** @type {string} */ text) =>
      key === 'content-type' ? (text.split(';')[0] ?? '').trim().toLowerCase() : fill(text);
    const same = value === '<any>' ? have !== '' : normal(have) === normal(String(value));
    if (!same) return `header ${key}: wanted ${value}, got ${have || 'none'}`;
  }
  return undefined;
}

/** A compressed answer, or JSON followed by raw tensor bytes. @param {any} want @param {any} got */
function decodedDifference(want, got) {
  const encoding = got.headers['content-encoding']?.[0];
  let body = got.body;
  try {
    if (encoding === 'gzip') body = gunzipSync(body);
    else if (encoding === 'deflate') body = inflateSync(body);
  } catch (error) {
    return `cannot decode ${encoding}: ${String(error)}`;
  }
  const head = Number(got.headers['inference-header-content-length']?.[0] ?? body.length);
  if (want.decoded_head_json !== undefined) {
    let parsed;
    try {
      parsed = JSON.parse(body.subarray(0, head).toString('utf8'));
    } catch {
      return 'the JSON part of the answer does not parse';
    }
    const difference = jsonDifference(want.decoded_head_json, parsed);
    if (difference) return difference;
  }
  const tail = want.decoded_tail_b64;
  if (tail !== undefined && !body.subarray(head).equals(Buffer.from(tail, 'base64'))) return 'the tensor bytes differ';
  return undefined;
}

/** @param {any} want @param {any} got @param {(text: string) => string} fill */
function bodyDifference(want, got, fill) {
  if (want.decoded_head_json !== undefined || want.decoded_tail_b64 !== undefined) return decodedDifference(want, got);
  const text = got.body.toString('utf8');
  if (want.body_json !== undefined) {
    let parsed;
    try {
      parsed = JSON.parse(text);
    } catch {
      return `wanted JSON, got ${text.slice(0, 120)}`;
    }
    return jsonDifference(JSON.parse(fill(JSON.stringify(want.body_json))), parsed);
  }
  if (want.body_b64 !== undefined) {
    if (got.body.equals(Buffer.from(want.body_b64, 'base64'))) return undefined;
    return `wanted bytes ${want.body_b64}, got ${got.body.toString('base64').slice(0, 120)}`;
  }
  if (want.body_len !== undefined) {
    return got.body.length === want.body_len ? undefined : `wanted ${want.body_len} bytes, got ${got.body.length}`;
  }
  if (want.body === undefined) return undefined;
  return isMetricsText(want.body) ? metricsDifference(want.body, text) : jsonDifference(fill(want.body), text, 'body');
}

/**
 * @param {import('./cases.mjs').Case} testCase
 * @param {import('./http-exchange.mjs').Answer} got
 * @param {(text: string) => string} fill
 * @param {Deviation} [deviation]
 * @returns {string | undefined} the first difference
 */
export function httpDifference(testCase, got, fill, deviation) {
  const want = testCase.response ?? {};
  if (want.error) {
    const refused = got.error !== undefined || (got.status ?? 0) >= 400;
    return refused ? undefined : `wanted a refusal (${want.error}), got ${got.status}`;
  }
  if (got.error && !deviation) return `no answer: ${got.error}`;
  const allowed = [deviation?.status ?? testCase.allow ?? want.status].flat();
  if (!allowed.includes(got.status)) {
    return `wanted status ${allowed.join(' or ')}, got ${got.status ?? got.error} ${got.body?.toString('utf8').slice(0, 200) ?? ''}`;
  }
  if (deviation && deviation.body !== 'same') return undefined;
  // Where another status than the recorded one is allowed, its body is ours.
  if (got.status !== want.status) return undefined;
  return headerDifference(want.headers, got.headers ?? {}, fill) ?? bodyDifference(want, got, fill);
}
