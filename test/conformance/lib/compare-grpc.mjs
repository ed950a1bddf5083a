// Decides whether a gRPC answer is the recorded one where it counts.
import { jsonDifference } from './compare-json.mjs';

/** `prediction_text` stands for the UTF-8 bytes of `prediction`. @param {any} want @param {any} got */
function messageDifference(want, got) {
  if (want === '<any>') return undefined;
  const { prediction_text: text, ...rest } = want;
  if (text !== undefined) {
    const have = Buffer.from(got.prediction ?? '', 'base64').toString('utf8');
    const difference = textDifference(text, have);
    if (difference) return difference;
  }
  return jsonDifference(rest, got);
}

/** JSON by value, other text exactly. @param {string} want @param {string} got */
function textDifference(want, got) {
  const [wanted, have] = [want, got].map((text) => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  });
  return typeof wanted === 'object' ? jsonDifference(wanted, have, 'prediction') : jsonDifference(want, got, 'prediction');
}

/**
 * @param {import('./cases.mjs').Case} testCase
 * @param {import('./grpc-exchange.mjs').GrpcAnswer} got
 * @param {import('./compare-http.mjs').Deviation} [deviation]
 * @returns {string | undefined} the first difference
 */
export function grpcDifference(testCase, got, deviation) {
  const want = testCase.response ?? {};
  const allowed = [deviation?.status ?? testCase.allow ?? want.code].flat();
  if (!allowed.includes(got.code)) return `wanted status ${allowed.join(' or ')}, got ${got.code} ${got.details}`;
  if (deviation && deviation.body !== 'same') return undefined;
  // Where another status than the recorded one is allowed, what comes with it is ours.
  if (got.code !== want.code) return undefined;
  const messages = want.messages ?? (want.message === undefined ? undefined : [want.message]);
  if (messages === undefined) return undefined;
  if (messages.length !== got.messages.length) return `wanted ${messages.length} messages, got ${got.messages.length}`;
  for (const [index, message] of messages.entries()) {
    const difference = messageDifference(message, got.messages[index]);
    if (difference) return messages.length > 1 ? `message ${index}: ${difference}` : difference;
  }
  return undefined;
}
