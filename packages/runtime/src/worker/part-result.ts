import type { NamedTensors } from '@onnxserve/handler-kit';
import {
  type AnswerControls,
  encodeResult,
  type Header,
  isHandlerResponse,
  isNamedTensors,
  readable,
} from '@onnxserve/handler-kit/internal';

/** What a handler answered to one part of a request. */
export interface PartResult {
  readonly status: number;
  readonly headers: readonly Header[];
  /** Its result when it is tensors by name. */
  readonly tensors: NamedTensors | undefined;
  /** Its result as JSON. Text that says it is JSON is taken as JSON, other text as text; bytes that are no UTF-8 are base64. */
  json(): string;
}

/**
 * @param maxBytes limit of a streamed result, which is collected
 * @throws {Error} for what cannot be encoded: the handler's bug
 */
export function partResult(result: unknown, controls: AnswerControls, maxBytes: number): PartResult | Promise<PartResult> {
  const { status, headers, body } = encodeResult(result, controls);
  const own = typeof result === 'object' && result !== null && isHandlerResponse(result) ? result.body : result;
  const tensors = isNamedTensors(own) ? own : undefined;
  const type = headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
  const kept = headers.filter(([name]) => name.toLowerCase() !== 'content-type');
  const made = (bytes: Uint8Array): PartResult => ({ status, headers: kept, tensors, json: () => jsonOf(bytes, type) });
  return body instanceof Uint8Array ? made(body) : collect(body, maxBytes).then(made);
}

async function collect(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    all.push(chunk);
    length += chunk.byteLength;
    // The answer as a whole is refused for its size; no need to hold more of it.
    if (length > maxBytes) break;
  }
  return Buffer.concat(all);
}

function jsonOf(bytes: Uint8Array, type: string): string {
  if (/^application\/(?:[\w.-]+\+)?json\b/i.test(type)) {
    const text = Buffer.from(bytes).toString('utf8');
    try {
      JSON.parse(text);
      return text;
    } catch {
      return JSON.stringify(text);
    }
  }
  return JSON.stringify(readable(bytes));
}
