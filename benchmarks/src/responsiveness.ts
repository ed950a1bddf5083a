import { copyFile, mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noopModel } from './noop-model.js';
import { root } from './paths.js';
import { startOnnxserve } from './server-process.js';

/** Milliseconds between two pings. */
const PING_EVERY = 5;
const BODY_BYTES = 20 * 1024 * 1024;
/** Iterations of slow.onnx for about two seconds. */
const TWO_SECONDS = 8000;

interface Situation {
  readonly name: string;
  readonly run: () => Promise<unknown>;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

const agent = new Agent({ keepAlive: true, maxSockets: 4 });

function send(url: string, method: string, body?: Buffer | string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { method, agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Pings as long as something else goes on. @returns each ping's milliseconds */
async function pingDuring(ping: string, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  const state = { over: false };
  const done = work().finally(() => (state.over = true));
  while (!state.over) {
    const started = performance.now();
    const { status } = await send(ping, 'GET');
    if (status !== 200) throw new Error(`/ping answered ${status}`);
    times.push(performance.now() - started);
    await new Promise((resolve) => setTimeout(resolve, PING_EVERY));
  }
  await done;
  return times;
}

/** Counts of the front's event-loop delays by upper bound in seconds, from its own histogram. */
async function delays(metrics: string): Promise<Map<string, number>> {
  const { body } = await send(`${metrics}/metrics?name[]=onnxserve_event_loop_delay_seconds`, 'GET');
  const buckets = body.matchAll(/onnxserve_event_loop_delay_seconds_bucket\{le="([^"]+)"\} (\d+)/g);
  return new Map([...buckets].map(([, bound, count]) => [bound ?? '', Number(count)]));
}

/** The upper bound of the longest delay between two readings. */
function longest(before: Map<string, number>, after: Map<string, number>): string {
  const total = (after.get('+Inf') ?? 0) - (before.get('+Inf') ?? 0);
  for (const [bound, count] of after) if (count - (before.get(bound) ?? 0) === total) return bound;
  return '+Inf';
}

const at = (sorted: readonly number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

async function expectOk(answer: Promise<Answer>): Promise<void> {
  const { status, body } = await answer;
  if (status !== 200) throw new Error(`wanted 200, got ${status}: ${body.slice(0, 300)}`);
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'onnxserve-responsiveness-'));
  const store = join(folder, 'store');
  try {
    await mkdir(store);
    await writeFile(join(store, 'noop.onnx'), noopModel());
    await copyFile(join(root, 'test/fixtures/models/slow.onnx'), join(store, 'slow.onnx'));
    const { writeBigModel } = (await import(join(root, 'test/fixtures/big-model.mjs'))) as {
      writeBigModel: (path: string, size?: number) => void;
    };
    writeBigModel(join(store, 'big.onnx'), 90 * 1024 * 1024);
    const server = await startOnnxserve(['noop.onnx', 'slow.onnx'], store, folder, { max_request_size: String(2 * BODY_BYTES) });
    try {
      const { inference, management, metrics } = server;
      const ping = `${inference}/ping`;
      const values = Buffer.from(`{"ignored":[${'1.5,'.repeat(BODY_BYTES / 4)}1.5]}`);
      const situations: Situation[] = [
        { name: 'idle', run: () => new Promise((resolve) => setTimeout(resolve, 2000)) },
        {
          name: 'a run of about 2 s',
          run: () => expectOk(send(`${inference}/predictions/slow`, 'POST', JSON.stringify({ iterations: [[TWO_SECONDS]] }))),
        },
        {
          name: 'a 90 MB model loads',
          run: () => expectOk(send(`${management}/models?url=big.onnx&initial_workers=1&synchronous=true`, 'POST')),
        },
        // The handler does not know the input, so the answer is 400: after the whole body was received, moved and parsed.
        { name: 'a 20 MB JSON body', run: () => send(`${inference}/predictions/noop`, 'POST', values) },
      ];
      console.log('| meanwhile | pings | median ms | p99 ms | longest ms | front blocked at most s |');
      console.log('|---|---|---|---|---|---|');
      for (const { name, run } of situations) {
        const before = await delays(metrics);
        const times = (await pingDuring(ping, run)).sort((a, b) => a - b);
        const blocked = longest(before, await delays(metrics));
        const [median, p99, most] = [at(times, 0.5), at(times, 0.99), times.at(-1) ?? 0].map((ms) => ms.toFixed(1));
        console.log(`| ${name} | ${times.length} | ${median} | ${p99} | ${most} | ${blocked} |`);
      }
    } finally {
      await server.stop();
    }
  } finally {
    agent.destroy();
    await rm(folder, { recursive: true, force: true });
  }
}

await main();
