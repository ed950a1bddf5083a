import { ServeError } from '../../domain/errors.js';
import type { NodeOutput } from './node-input.js';

export interface WorkflowAnswer {
  readonly body: Buffer;
  readonly contentType: string;
}

const json = 'application/json';
const strict = new TextDecoder('utf-8', { fatal: true });

/**
 * The outputs of the leaves as one answer: of one leaf its bytes, of several an object by node. Text that is JSON counts as what it
 * says, other text as text.
 * @throws {ServeError} naming a leaf whose output is binary and cannot stand in an object
 */
export function workflowAnswer(leaves: readonly NodeOutput[]): WorkflowAnswer {
  const [only] = leaves;
  if (leaves.length === 1 && only !== undefined) {
    // Clients of TorchServe's workflows are told JSON whatever it is, unless the handler itself says otherwise.
    const { contentType } = only;
    return { body: only.body, contentType: contentType === undefined || /^text\/plain/i.test(contentType) ? json : contentType };
  }
  const members = leaves.map(({ node, body }) => `${JSON.stringify(node)}: ${jsonOf(node, body)}`);
  return { body: Buffer.from(`{${members.join(', ')}}`), contentType: json };
}

function jsonOf(node: string, body: Buffer): string {
  let text: string;
  try {
    text = strict.decode(body);
  } catch {
    throw new ServeError(
      'HANDLER_FAILED',
      `The output of ${node} is binary, and the outputs of several last nodes are joined as JSON; let the node answer text or JSON, or join them in a node of its own.`,
    );
  }
  try {
    JSON.parse(text);
    // As it was written, so that large integers keep their digits.
    return text;
  } catch {
    return JSON.stringify(text);
  }
}
