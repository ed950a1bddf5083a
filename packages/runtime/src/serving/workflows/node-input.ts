import { randomBytes } from 'node:crypto';

/** What a node gave. */
export interface NodeOutput {
  readonly node: string;
  readonly body: Buffer;
  /** Undefined when the handler named none. */
  readonly contentType: string | undefined;
}

export interface NodeInput {
  /** `[name, value, ...]` */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

/**
 * What a node gets from those before it: the one output as it is, or a form with a part for each of several, by their names.
 * @param headers what the client sent, without what describes its body
 */
export function nodeInput(outputs: readonly NodeOutput[], headers: readonly string[]): NodeInput {
  const [only] = outputs;
  if (outputs.length === 1 && only !== undefined) {
    return {
      rawHeaders: [
        ...headers,
        ...(only.contentType === undefined ? [] : ['content-type', only.contentType]),
        ...length(only.body),
      ],
      body: only.body,
    };
  }
  const boundary = `onnxserve-${randomBytes(18).toString('hex')}`;
  const pieces: Buffer[] = [];
  for (const { node, body, contentType = 'application/octet-stream' } of outputs) {
    // The names of nodes hold no quotes.
    pieces.push(
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${node}"; filename="${node}"\r\nContent-Type: ${contentType}\r\n\r\n`,
      ),
      body,
      Buffer.from('\r\n'),
    );
  }
  pieces.push(Buffer.from(`--${boundary}--\r\n`));
  const body = Buffer.concat(pieces);
  return { rawHeaders: [...headers, 'content-type', `multipart/form-data; boundary=${boundary}`, ...length(body)], body };
}

const ofBody = new Set(['content-type', 'content-length', 'content-encoding', 'transfer-encoding', 'expect', 'trailer']);

/** Headers of a request without those that describe its body. */
export function withoutBodyHeaders(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!ofBody.has(rawHeaders[at]!.toLowerCase())) kept.push(rawHeaders[at]!, rawHeaders[at + 1]!);
  }
  return kept;
}

function length(body: Buffer): string[] {
  return ['content-length', String(body.length)];
}
