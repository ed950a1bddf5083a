import type { WorkflowNode, WorkflowSpec } from '@onnxserve/archiver/workflow-spec';
import { type ErrorCode, ServeError, toServeError } from '../../domain/errors.js';
import {
  type Client,
  monotonicNow,
  noStages,
  type PredictReply,
  type PredictRequest,
  type StageTimes,
} from '../../domain/request.js';
import { joinStream } from './join-stream.js';
import { nodeInput, type NodeOutput, withoutBodyHeaders } from './node-input.js';
import { workflowAnswer } from './workflow-answer.js';
import type { WorkflowRequest } from './workflow-service.js';

export type Predict = (request: PredictRequest) => Promise<PredictReply>;

/** What a node gave, and where the time went on the slowest way to it. */
interface Outcome {
  readonly output: NodeOutput;
  readonly stages: StageTimes;
  readonly endedAt: number;
  readonly reply: PredictReply;
}

/**
 * Runs a request through the graph: a node begins when all it waits for are done, so branches run in parallel. The first failure that
 * is not cured by trying again ends the others.
 * @param modelOf name of the model that a node runs as
 * @param maxStream bytes that a node may stream for the next one
 * @throws {ServeError} naming the node
 */
export async function runWorkflow(
  spec: WorkflowSpec,
  modelOf: (node: string) => string,
  request: WorkflowRequest,
  predict: Predict,
  maxStream: number,
): Promise<PredictReply> {
  const branches = new Branches(request.client, maxStream);
  const headers = withoutBodyHeaders(request.rawHeaders);
  const running = new Map<string, Promise<Outcome>>();
  const run = async (node: WorkflowNode): Promise<Outcome> => {
    const before = await Promise.all((spec.upstream.get(node.name) ?? []).map((name) => running.get(name)!));
    const outputs = before.map(({ output }) => output);
    const input = outputs.length === 0 ? { rawHeaders: request.rawHeaders, body: request.body } : nodeInput(outputs, headers);
    const reply = await attempts(node, async () => {
      const limit = monotonicNow() + node.settings.timeoutMs * 1e6;
      return await branches.send(predict, {
        ...request,
        ...input,
        id: request.id,
        modelName: modelOf(node.name),
        modelVersion: undefined,
        kind: 'predict',
        receivedAt: outputs.length === 0 ? request.receivedAt : monotonicNow(),
        deadline: Math.min(request.deadline ?? Infinity, limit),
        admitted: true,
        envelope: 'none',
        client: undefined,
      });
    });
    const slowest = before.reduce<Outcome | undefined>((last, it) => (last && last.endedAt > it.endedAt ? last : it), undefined);
    const contentType = reply.headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1];
    return {
      output: { node: node.name, body: reply.body as Buffer, contentType },
      stages: sum(slowest?.stages ?? noStages(), reply.stages),
      endedAt: monotonicNow(),
      reply,
    };
  };
  for (const node of spec.nodes) {
    const outcome = run(node);
    // Whoever waits for it hears of the failure; a branch that nobody waits for any more must not be an unhandled one.
    outcome.catch((error: unknown) => branches.cancel(toServeError(error)));
    running.set(node.name, outcome);
  }
  try {
    const outcomes = await Promise.all(spec.leaves.map((name) => running.get(name)!));
    const { body, contentType } = workflowAnswer(outcomes.map(({ output }) => output));
    const last = outcomes.reduce((a, b) => (b.endedAt > a.endedAt ? b : a));
    const only = outcomes.length === 1 ? last.reply : undefined;
    const others = only?.headers.filter(([name]) => name.toLowerCase() !== 'content-type') ?? [];
    return {
      ...last.reply,
      status: only?.status ?? 200,
      headers: [['content-type', contentType], ...others],
      body,
      stages: last.stages,
    };
  } catch (error) {
    // The failure that came first is the cause of the others.
    throw branches.failure ?? toServeError(error);
  } finally {
    branches.end();
  }
}

/** Tries a node again as often as its settings say, unless the client is to blame or has gone. */
async function attempts(node: WorkflowNode, send: () => Promise<PredictReply>): Promise<PredictReply> {
  for (let left = node.settings.retryAttempts; ; left--) {
    try {
      return await send();
    } catch (thrown) {
      const error = toServeError(thrown);
      if (left > 0 && worthAnother(error)) continue;
      const limit = error.code === 'DEADLINE_EXCEEDED' ? ` The node may take ${node.settings.timeoutMs} ms (timeout-ms).` : '';
      throw new ServeError(error.code, `Error executing ${node.name}: ${error.message}${limit}`, {
        reason: error.reason,
        cause: error,
        ...(error.status === undefined ? {} : { status: error.status }),
        ...(error.retryAfter === undefined ? {} : { retryAfter: error.retryAfter }),
      });
    }
  }
}

/** A client's mistake stays one, a full queue is no better off with more requests, and who has left wants nothing. */
function worthAnother({ code, status = 500 }: ServeError): boolean {
  return curable.has(code) || (code === 'PREDICTION_ERROR' && status >= 500);
}

const curable: ReadonlySet<ErrorCode> = new Set([
  'HANDLER_FAILED',
  'WORKER_DIED',
  'RESPONSE_TIMEOUT',
  'DEADLINE_EXCEEDED',
  'OUT_OF_MEMORY',
  'INTERNAL',
]);

/** Whoever waits for what a node gives. */
interface Branch {
  gone: boolean;
  onGone: (() => void) | undefined;
}

/** The requests of one workflow request that are under way, which end together when its client leaves or one of them fails. */
class Branches {
  readonly #client: Client | undefined;
  readonly #maxStream: number;
  readonly #running = new Set<Branch>();
  failure: ServeError | undefined;

  constructor(client: Client | undefined, maxStream: number) {
    this.#client = client;
    this.#maxStream = maxStream;
    if (client !== undefined) {
      client.onGone = () => this.cancel(new ServeError('CANCELLED', 'The client left.'));
    }
  }

  async send(predict: Predict, request: PredictRequest): Promise<PredictReply> {
    if (this.#client?.gone === true) this.failure ??= new ServeError('CANCELLED', 'The client left.');
    if (this.failure !== undefined) throw this.failure;
    const client: Branch = { gone: false, onGone: undefined };
    this.#running.add(client);
    try {
      const reply = await predict({ ...request, client });
      if (Buffer.isBuffer(reply.body)) return reply;
      const { deadline } = request;
      return { ...reply, body: await joinStream(reply.body, { limit: this.#maxStream, deadline, client }) };
    } finally {
      this.#running.delete(client);
    }
  }

  cancel(why: ServeError): void {
    this.failure ??= why;
    for (const client of this.#running) {
      client.gone = true;
      client.onGone?.();
    }
  }

  end(): void {
    if (this.#client !== undefined) this.#client.onGone = undefined;
  }
}

function sum(a: StageTimes, b: StageTimes): StageTimes {
  const total = { ...a };
  for (const stage of Object.keys(b) as Array<keyof StageTimes>) total[stage] += b[stage];
  return total;
}
