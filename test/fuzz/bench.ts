import { readFile } from 'node:fs/promises';
import { GrpcClient, input } from '../helpers/grpc.js';
import { exchange } from '../helpers/raw.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { Violation, within } from './target.js';

/** Reads the request in every way that its type allows, and says what it found. */
const echo = `
export default {
  preprocess(request) {
    const type = request.contentType ?? '';
    if (/multipart|form/.test(type)) return request.parts().map(({ name, data }) => [name, data.length]);
    if (/json/.test(type)) { const value = request.json(); return value === undefined ? null : { echo: value }; }
    if (/text/.test(type)) return { text: request.text() };
    return { bytes: request.body().length, parts: request.parts().length };
  },
  inference: (batch) => batch,
  postprocess: (found) => found,
};`;
const one = { minWorkers: 1, maxWorkers: 1 };

/** The servers that are fuzzed, and what must stay true of them. */
export interface Bench {
  readonly open: TestServer;
  /** Every API of this one asks for a token. */
  readonly closed: TestServer;
  /** The right token of its inference API. */
  readonly token: string;
  /** Asks what is right and compares the answers; looks at processes and logs. @throws {Violation} */
  check(): Promise<void>;
  /** Bytes of memory of the front that are its own. */
  memory(): Promise<number>;
  stop(): Promise<void>;
}

export async function startBench(): Promise<Bench> {
  const token = 'the-token-of-the-inference-api';
  const common = { access_log_level: 'error', max_request_size: 1_000_000, unregister_model_timeout: 10 };
  const [open, closed] = await Promise.all([
    startServer({
      models: {
        echo: { handlerSource: echo, config: { ...one, batchSize: 4, jobQueueSize: 1000 } },
        tensor: { model: 'identity-fp32.onnx', config: { ...one, batchSize: 4, jobQueueSize: 1000 } },
        text: { model: 'identity-string.onnx', config: one },
        victim: { handlerSource: echo, config: { minWorkers: 0, maxWorkers: 1 } },
      },
      config: { ...common, max_workers_limit: 2, log_level: 'warn' },
    }),
    startServer({
      models: { echo: { handlerSource: echo, config: one } },
      config: { ...common, disable_token_authorization: false },
      environment: {
        ONNXSERVE_INFERENCE_TOKEN: token,
        ONNXSERVE_MANAGEMENT_TOKEN: 'the-token-of-the-management-api',
      },
    }),
  ]);
  const grpc = new GrpcClient(open.grpcInference);
  let pids = await workers(open);
  const logsSeen = new Map<TestServer, number>();
  const check = async () => {
    await within(Promise.all([askHttp(open), askGrpc(grpc), askTensors(open), askClosed(closed, token)]), 'a valid request');
    const now = await workers(open);
    const before = pids;
    pids = now;
    if (now !== before) throw new Violation(`workers were replaced: ${before} before, ${now} after`);
    for (const server of [open, closed]) {
      const logs = server.logs();
      const fresh = logs.slice(logsSeen.get(server) ?? 0);
      logsSeen.set(server, logs.length);
      const told = fresh.replaceAll(brokenModels, '');
      const found = /^.*(?:\bINTERNAL\b|Internal error|[Uu]nhandled|[Uu]ncaught|\n\s+at \S.*:\d+:\d+).*$/m.exec(told);
      if (found !== null) throw new Violation(`an unhandled error in the log:\n${told.slice(found.index, found.index + 1500)}`);
    }
  };
  const memory = async () => {
    const front = await frontOf(open);
    const text = await readFile(`/proc/${front}/smaps_rollup`, 'utf8');
    return Number(/^Private_Dirty:\s+(\d+)/m.exec(text)?.[1]) * 1024;
  };
  const stop = async () => {
    grpc.close();
    await Promise.all([open.stop(), closed.stop()]);
  };
  return { open, closed, token, check, memory, stop };
}

/** What models that are broken on purpose have in the log, the lines of their stacks too. */
const brokenModels = /^.*-fuzzed-\d+_\S* MODEL_LOG .*\n(?:(?!\d{4}-\d\d-).*\n)*/gm;

/** Pids of the workers that no case has a reason to touch. */
async function workers(server: TestServer): Promise<string> {
  const models = await Promise.all(['echo', 'tensor', 'text'].map((name) => server.describe(name)));
  return models.map((model) => model.workers.map(({ pid, restarts }) => `${pid}/${restarts}`).join()).join(' ');
}

/** The parent of a worker. */
async function frontOf(server: TestServer): Promise<number> {
  const { workers: found } = await server.describe('echo');
  const text = await readFile(`/proc/${found[0]?.pid}/stat`, 'utf8');
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
}

const json = { 'content-type': 'application/json' };

function same(what: string, status: number, body: string, wanted: string): void {
  if (status !== 200 || body !== wanted)
    throw new Violation(`a valid request (${what}) was answered ${status} ${body.slice(0, 300)}`);
}

async function askHttp(server: TestServer): Promise<void> {
  const value = { a: [1, 'ä', null] };
  const answer = await exchange(`${server.inference}/predictions/echo`, { headers: json, body: JSON.stringify(value) });
  same('predict', answer.status, JSON.stringify(JSON.parse(answer.body.toString())), JSON.stringify({ echo: value }));
  const ping = await exchange(`${server.inference}/ping`, { method: 'GET' });
  if (ping.status !== 200) throw new Violation(`ping: ${ping.status} ${ping.body.toString()}`);
  const list = await exchange(`${server.management}/models`, { method: 'GET' });
  if (list.status !== 200 || !list.body.includes('"echo"')) throw new Violation(`the list of models: ${list.status}`);
}

async function askTensors(server: TestServer): Promise<void> {
  const inputs = [{ name: 'input', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }];
  const answer = await exchange(`${server.inference}/v2/models/tensor/infer`, {
    headers: json,
    body: JSON.stringify({ inputs }),
  });
  const { outputs } = JSON.parse(answer.body.toString()) as { outputs?: Array<{ data: unknown }> };
  same('tensors', answer.status, JSON.stringify(outputs?.[0]?.data), '[1,2,3,4]');
}

async function askGrpc(client: GrpcClient): Promise<void> {
  const answer = await client.call(
    'inference',
    'Predictions',
    { model_name: 'echo', input: input({ body: 'abc' }) },
    { deadlineMs: 9_000 },
  );
  if (answer.code !== 0) throw new Violation(`a valid call was answered ${answer.code} ${answer.details}`);
}

async function askClosed(server: TestServer, token: string): Promise<void> {
  const headers = { ...json, authorization: `Bearer ${token}` };
  const answer = await exchange(`${server.inference}/predictions/echo`, { headers, body: '1' });
  same('with a token', answer.status, JSON.stringify(JSON.parse(answer.body.toString())), '{"echo":1}');
}
