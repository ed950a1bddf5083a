import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, messageOf, metric, post } from '../helpers/client.js';
import { type Gates, startGates } from '../helpers/gates.js';
import { GrpcClient, input, type Message } from '../helpers/grpc.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const handler = 'conversation';
const one = { minWorkers: 1, maxWorkers: 1 };
const sequences = { sequenceBatching: true, maxNumSequence: 2, maxSequenceJobQueueSize: 2, batchSize: 2 };

let server: TestServer;
let gates: Gates;
type Marks = { readonly id?: string; readonly start?: boolean; readonly end?: boolean };
const headersOf = ({ id, start, end }: Marks) => ({
  ...(id === undefined ? {} : { ts_request_sequence_id: id }),
  ...(start === true ? { ts_request_sequence_start: 'true' } : {}),
  ...(end === true ? { ts_request_sequence_end: 'true' } : {}),
});
const say = (model: string, marks: Marks, body: object) =>
  post(`${server.inference}/predictions/${model}`, body, headersOf(marks));
interface Said {
  readonly words: string;
  readonly place: { readonly id: string; readonly start: boolean; readonly end: boolean };
  readonly headers: Readonly<Record<string, string>>;
  readonly batch: number;
  readonly pid: number;
}
const said = ({ json }: Answer) => json as Said;
const reason = ({ json }: Answer) => (json as { reason?: string }).reason;
const active = (model: string) => metric(server.metrics, 'onnxserve_sequences', { model });
const untilActive = (model: string, count: number) =>
  until(async () => ((await active(model)) === count ? true : undefined), `${count} sequences of ${model} are active`);
/** What the handler knows of sequences that have ended. */
async function endedOf(model: string): Promise<Array<{ id: string; words: string; reason: string }>> {
  const response = await fetch(`${server.management}/models/${model}?customized=true`);
  const [described] = (await response.json()) as [{ customizedMetadata: { ended: never[] } }];
  return described.customizedMetadata.ended;
}

beforeAll(async () => {
  gates = await startGates();
  server = await startServer({
    models: {
      talk: { handler, config: { ...one, ...sequences } },
      limited: { handler, config: { ...one, ...sequences } },
      idle: { handler, config: { ...one, ...sequences, sequenceMaxIdleMSec: 300 } },
      total: { handler, config: { ...one, ...sequences, sequenceTimeoutMSec: 400 } },
      pair: { handler, config: { minWorkers: 2, maxWorkers: 2, ...sequences, maxNumSequence: 8 } },
      doomed: { handler, config: { ...one, ...sequences } },
      shrinks: { handler, config: { minWorkers: 2, maxWorkers: 2, ...sequences, maxNumSequence: 8 } },
      batches: { handler, config: { ...one, ...sequences, maxBatchDelay: 600_000 } },
      grpc: { handler, config: { ...one, ...sequences } },
      plain: { handler: 'whole-batch', config: { ...one, ...sequences } },
      quick: { handler, config: one },
    },
    mayFail: true,
  });
});
afterAll(async () => {
  gates.openAll();
  await server.stop();
  gates.close();
});

describe('a sequence', () => {
  it('keeps its state in the worker until its end mark, which frees its place at once', async () => {
    const answers: Answer[] = [];
    for (const [word, marks] of Object.entries({ one: { start: true }, two: {}, three: { end: true } }))
      answers.push(await say('talk', { id: 'a', ...marks }, { word }));
    expect(answers.map((it) => said(it).words)).toEqual(['one', 'one two', 'one two three']);
    expect(answers.map((it) => said(it).place)).toEqual([
      { id: 'a', start: true, end: false },
      { id: 'a', start: false, end: false },
      { id: 'a', start: false, end: true },
    ]);
    expect(answers.map(({ headers }) => headers.get('ts_request_sequence_id'))).toEqual(['a', 'a', 'a']);
    expect(await active('talk')).toBe(0);
    expect(await endedOf('talk')).toContainEqual({ id: 'a', words: 'one two three', reason: 'end' });
    // The same id is a new sequence.
    expect(said(await say('talk', { id: 'a', end: true }, { word: 'four' })).words).toBe('four');
  });

  it('gets an id of the server when the client names none', async () => {
    const first = await say('talk', {}, { word: 'hello' });
    const id = first.headers.get('ts_request_sequence_id')!;
    expect(id).toMatch(/^ts-seq-[0-9a-f-]{36}$/);
    expect(said(first)).toMatchObject({ place: { id, start: true }, headers: { ts_request_sequence_id: id } });
    expect(said(await say('talk', { id, end: true }, { word: 'again' })).words).toBe('hello again');
  });

  it('whose first request fails leaves no place behind that nobody could name', async () => {
    expect((await say('talk', {}, { fail: true })).status).toBe(422);
    expect(await active('talk')).toBe(0);
  });

  it('runs in order whatever comes at once, and past a client that has left', async () => {
    const gate = `${gates.url}/order`;
    const first = say('talk', { id: 'b', start: true }, { word: '1', gate });
    await gates.reached('order');
    const leaves = new AbortController();
    const second = fetch(`${server.inference}/predictions/talk`, {
      method: 'POST',
      body: '{"word":"2"}',
      headers: headersOf({ id: 'b' }),
      signal: leaves.signal,
    });
    const depth = (count: number) => async () =>
      (await metric(server.metrics, 'onnxserve_queue_depth', { model: 'talk' })) === count ? true : undefined;
    await until(depth(1), 'the second waits');
    const third = say('talk', { id: 'b', end: true }, { word: '3' });
    await until(depth(2), 'the third waits');
    leaves.abort();
    await expect(second).rejects.toThrow();
    await until(depth(1), 'the second has left');
    gates.open('order');
    expect(said(await first).words).toBe('1');
    expect(said(await third).words).toBe('1 3');
  });
});

it('members of different sequences share a batch, members of one never', async () => {
  const answers = await Promise.all([
    say('batches', { id: 'a', end: true }, { word: 'a' }),
    say('batches', { id: 'b', end: true }, { word: 'b' }),
  ]);
  expect(answers.map((it) => said(it).batch)).toEqual([2, 2]);
});

describe('limits', () => {
  it('maxNumSequence holds, with the setting in the refusal', async () => {
    await say('limited', { id: 'a', start: true }, {});
    await say('limited', { id: 'b', start: true }, {});
    const refused = await say('limited', { id: 'c', start: true }, {});
    expect([refused.status, reason(refused)]).toEqual([503, 'too-many-sequences']);
    expect(messageOf(refused)).toMatch(/2 sequences .*maxNumSequence/);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await server.describe('limited')).toMatchObject({ stateful: true, maxNumSequence: 2, activeSequences: 2 });
    await say('limited', { id: 'a', end: true }, {});
    expect((await say('limited', { id: 'c', start: true, end: true }, {})).status).toBe(200);
    await say('limited', { id: 'b', end: true }, {});
    const counted = await metric(server.metrics, 'onnxserve_requests_total', { model: 'limited', reason: 'too-many-sequences' });
    expect(counted).toBe(1);
  });

  it('maxSequenceJobQueueSize counts those that wait', async () => {
    const gate = `${gates.url}/full`;
    const first = say('limited', { id: 'a', start: true }, { gate });
    await gates.reached('full');
    // Two may wait.
    const answers = ['1', '2', '3', '4'].map((word) => say('limited', { id: 'a' }, { word }));
    const firstRefused = await Promise.any(
      answers.map(async (it) => {
        const answer = await it;
        if (answer.status !== 503) throw new Error('served');
        return answer;
      }),
    );
    expect(reason(firstRefused)).toBe('sequence-queue-full');
    expect(messageOf(firstRefused)).toContain('maxSequenceJobQueueSize');
    gates.open('full');
    const statuses = (await Promise.all([first, ...answers])).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 503)).toHaveLength(2);
    await say('limited', { id: 'a', end: true }, {});
  });
});

describe('sequences that end without their clients', () => {
  it('after sequenceMaxIdleMSec, and a late member is told', async () => {
    await say('idle', { id: 'marked', start: true }, { word: 'a' });
    await say('idle', { id: 'unmarked' }, { word: 'b' });
    await untilActive('idle', 0);
    expect(await endedOf('idle')).toEqual(
      expect.arrayContaining([
        { id: 'marked', words: 'a', reason: 'idle' },
        { id: 'unmarked', words: 'b', reason: 'idle' },
      ]),
    );
    const late = await say('idle', { id: 'marked' }, { word: 'c' });
    expect([late.status, reason(late)]).toEqual([503, 'sequence-expired']);
    expect(messageOf(late)).toContain('sequenceMaxIdleMSec');
    expect(said(await say('idle', { id: 'marked', start: true, end: true }, { word: 'd' })).words).toBe('d');
    expect(said(await say('idle', { id: 'unmarked', end: true }, { word: 'e' })).words).toBe('e');
  });

  it('after sequenceTimeoutMSec: what runs is answered, what waits is refused', async () => {
    const gate = `${gates.url}/total`;
    const first = say('total', { id: 'a', start: true }, { word: '1', gate });
    await gates.reached('total');
    const waiting = await say('total', { id: 'a' }, { word: '2' });
    expect([waiting.status, reason(waiting)]).toEqual([503, 'sequence-expired']);
    expect(messageOf(waiting)).toContain('sequenceTimeoutMSec');
    gates.open('total');
    expect(said(await first).words).toBe('1');
    await untilActive('total', 0);
    expect(await endedOf('total')).toContainEqual({ id: 'a', words: '1', reason: 'timeout' });
  });
});

describe('workers', () => {
  it('keep their sequences', async () => {
    const ids = ['a', 'b', 'c', 'd'];
    const first = await Promise.all(ids.map((id) => say('pair', { id, start: true }, { word: '1' })));
    const pids = first.map((it) => said(it).pid);
    expect(new Set(pids).size).toBe(2);
    for (const word of ['2', '3']) {
      const next = await Promise.all(ids.map((id) => say('pair', { id }, { word })));
      expect(next.map((it) => said(it).pid)).toEqual(pids);
    }
    const last = await Promise.all(ids.map((id) => say('pair', { id, end: true }, {})));
    expect(last.map((it) => said(it).words)).toEqual(ids.map(() => '1 2 3'));
  });

  it('take them along when they die: nothing of them runs again', async () => {
    const [worker] = (await server.untilReady('doomed')).workers;
    const gate = `${gates.url}/doomed`;
    await say('doomed', { id: 'idle', start: true }, { word: 'kept' });
    const running = say('doomed', { id: 'a', start: true }, { word: '1', gate });
    await gates.reached('doomed');
    const waiting = say('doomed', { id: 'a' }, { word: '2' });
    await until(
      async () => ((await metric(server.metrics, 'onnxserve_queue_depth', { model: 'doomed' })) === 1 ? true : undefined),
      'the second waits',
    );
    process.kill(worker!.pid, 'SIGKILL');
    expect((await running).status).toBe(500);
    expect([(await waiting).status, reason(await waiting)]).toEqual([503, 'sequence-lost']);
    const late = await say('doomed', { id: 'idle' }, { word: 'late' });
    expect([late.status, reason(late)]).toEqual([503, 'sequence-lost']);
    expect(messageOf(late)).toMatch(/begin it anew/i);
    const anew = await say('doomed', { id: 'idle', start: true, end: true }, { word: 'new' });
    expect(said(anew).words).toBe('new');
    expect(said(anew).pid).not.toBe(worker!.pid);
  });

  it('that are scaled away serve their sequences to the end and get no new ones', async () => {
    const ids = ['a', 'b', 'c', 'd'];
    const first = await Promise.all(ids.map((id) => say('shrinks', { id, start: true }, { word: '1' })));
    const [stays] = (await server.describe('shrinks')).workers;
    const scaled = fetch(`${server.management}/models/shrinks?min_worker=1&max_worker=1&synchronous=true`, { method: 'PUT' });
    await until(
      async () => ((await server.describe('shrinks')).workers.length === 1 ? true : undefined),
      'one worker is left in describe',
    );
    const fresh = await Promise.all(['e', 'f'].map((id) => say('shrinks', { id, start: true, end: true }, {})));
    expect(fresh.map((it) => said(it).pid)).toEqual([stays!.pid, stays!.pid]);
    const last = await Promise.all(ids.map((id) => say('shrinks', { id, end: true }, { word: '2' })));
    expect(last.map((it) => said(it).words)).toEqual(ids.map(() => '1 2'));
    expect(last.map((it) => said(it).pid)).toEqual(first.map((it) => said(it).pid));
    expect((await scaled).status).toBe(200);
  });
});

it('a worker that is scaled away takes its sequences along after unregister_model_timeout, and a server that stops ends them', async () => {
  const own = await startServer({
    models: { talk: { handler, config: { ...one, ...sequences } } },
    config: { unregister_model_timeout: 1 },
  });
  const talk = (marks: Marks, body: object) => post(`${own.inference}/predictions/talk`, body, headersOf(marks));
  const scale = (workers: number) =>
    fetch(`${own.management}/models/talk?min_worker=${workers}&max_worker=${workers}&synchronous=true`, { method: 'PUT' });
  try {
    await talk({ id: 'a', start: true }, { word: '1' });
    expect((await scale(0)).status).toBe(200);
    await scale(1);
    const late = await talk({ id: 'a' }, { word: '2' });
    expect([late.status, reason(late)]).toEqual([503, 'sequence-lost']);
    expect(said(await talk({ id: 'a', start: true }, { word: '3' })).words).toBe('3');
  } finally {
    expect(await own.stop()).toBe(0);
  }
});

describe('over gRPC', () => {
  const message = (sequence_id: string | undefined, word: string, marks: Record<string, string> = {}) => ({
    model_name: 'grpc',
    ...(sequence_id === undefined ? {} : { sequence_id }),
    input: input({ data: JSON.stringify({ word }), ...marks }),
  });
  const wordsOf = ({ prediction }: Message) => (JSON.parse(String(prediction)) as Said).words;

  it('a stream and single calls share the state of a sequence', async () => {
    const client = new GrpcClient(server.grpcInference);
    try {
      const talk = client.talk('inference', 'StreamPredictions2');
      talk.call.write?.(message('s', '1', { ts_request_sequence_start: 'true' }));
      talk.call.write?.(message('t', 'a'));
      talk.call.write?.(message('s', '2'));
      const messages = await talk.until(3);
      const of = (id: string) => messages.filter(({ sequence_id }: Message) => sequence_id === id).map(wordsOf);
      expect([of('s'), of('t')]).toEqual([['1', '1 2'], ['a']]);
      const single = await client.call('inference', 'Predictions', message('s', '3'));
      expect(wordsOf(single.messages[0])).toBe('1 2 3');
      // Both places are taken.
      talk.call.write?.(message('u', 'x'));
      const [, , , refused] = await talk.until(4);
      expect(refused.status.message).toContain('maxNumSequence');
      talk.call.write?.(message('s', '4', { ts_request_sequence_end: 'true' }));
      talk.call.write?.(message('t', 'b', { ts_request_sequence_end: 'true' }));
      talk.call.end?.();
      expect((await talk.ended()).messages).toHaveLength(6);
      expect(await active('grpc')).toBe(0);
    } finally {
      client.close();
    }
  });

  it('a call without an id gets one', async () => {
    const client = new GrpcClient(server.grpcInference);
    try {
      const first = await client.call('inference', 'Predictions', message(undefined, '1'));
      const id = String(first.headers.get('ts_request_sequence_id')[0]);
      expect(id).toMatch(/^ts-seq-/);
      const marks = { ts_request_sequence_end: 'true' };
      expect(wordsOf((await client.call('inference', 'Predictions', message(id, '2', marks))).messages[0])).toBe('1 2');
    } finally {
      client.close();
    }
  });
});

describe('configuration', () => {
  it('any handler may serve sequences; describe warns of those that may never end', async () => {
    const answer = await say('plain', {}, { value: 1 });
    expect(answer.headers.get('ts_request_sequence_id')).toMatch(/^ts-seq-/);
    expect((await server.describe('plain')).warnings).toContainEqual(expect.stringContaining('sequenceMaxIdleMSec'));
  });

  it('names the headers', async () => {
    const own = await startServer({
      models: { talk: { handler, config: { ...one, ...sequences } } },
      config: {
        ts_header_key_sequence_id: 'X-Talk',
        ts_header_key_sequence_start: 'X-Talk-Start',
        ts_header_key_sequence_end: 'X-Talk-End',
      },
    });
    try {
      const speak = (word: string, headers: Record<string, string>) =>
        post(`${own.inference}/predictions/talk`, { word }, { 'x-talk': 'a', ...headers });
      expect(said(await speak('one', { 'x-talk-start': 'true' })).place).toEqual({ id: 'a', start: true, end: false });
      expect(said(await speak('two', { 'x-talk-end': 'true' })).words).toBe('one two');
      expect(await metric(own.metrics, 'onnxserve_sequences', { model: 'talk' })).toBe(0);
    } finally {
      await own.stop();
    }
  });

  it('a handler that counts on sequences does not load without sequenceBatching', () => {
    expect(server.failures.join()).toMatch(/quick.*startSequence.*sequenceBatching: true/s);
  });
});
