import { parseWorkflowSpec } from '@onnxserve/archiver/workflow-spec';
import { describe, expect, it } from 'vitest';
import { ServeError } from '../../domain/errors.js';
import { type Client, noStages, type PredictReply, type PredictRequest } from '../../domain/request.js';
import { runWorkflow } from './run-workflow.js';

const diamond = 'models: {retry-attempts: 1, timeout-ms: 5000}\ndag: {split: [a, b], a: [join], b: [join]}';

type Answer = (request: PredictRequest) => Promise<string | Buffer | PredictReply> | string | Buffer;

function setUp(text: string, nodes: Readonly<Record<string, Answer>>, client?: Client) {
  const calls: PredictRequest[] = [];
  const run = (body = 'in') =>
    runWorkflow(
      parseWorkflowSpec(text, 'spec.yaml'),
      (node) => `w__${node}`,
      {
        id: 'r1',
        rawHeaders: ['x-own', '1', 'Content-Type', 'text/plain', 'content-length', String(body.length)],
        urlPath: '',
        query: [],
        body: Buffer.from(body),
        receivedAt: 0,
        client,
      },
      async (request) => {
        calls.push(request);
        const answer = await nodes[request.modelName.replace('w__', '')]!(request);
        return typeof answer === 'object' && !Buffer.isBuffer(answer) ? answer : reply(answer);
      },
      1000,
    );
  const called = () => calls.map(({ modelName }) => modelName.replace('w__', ''));
  return { run, calls, called };
}

function reply(body: string | Buffer, changes: Partial<PredictReply> = {}): PredictReply {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
  return {
    status: 200,
    headers: [],
    body: bytes,
    stages: noStages(),
    batchSize: 1,
    workerId: 'w',
    modelVersion: '1.0',
    ...changes,
  };
}

const text = (request: PredictRequest) => request.body.toString();
const failing = (code: ConstructorParameters<typeof ServeError>[0], status?: number) => () => {
  throw new ServeError(code, 'no', status === undefined ? {} : { status });
};

describe('a workflow', () => {
  it('gives its nodes bodies as they are, whatever the server is configured for', async () => {
    const { run, calls } = setUp('dag: {first: [second]}', { first: text, second: text });
    await run();
    expect(calls.map(({ envelope }) => envelope)).toEqual(['none', 'none']);
  });

  it('runs branches at the same time and gives their join a part of each', async () => {
    let arrived = 0;
    let bothArrived: () => void;
    const both = new Promise<void>((resolve) => (bothArrived = resolve));
    const branch = (tag: string) => async (request: PredictRequest) => {
      if (++arrived === 2) bothArrived();
      // Each waits for the other: one after the other would never end.
      await both;
      return `${tag}(${text(request)})`;
    };
    const { run, calls } = setUp(diamond, { split: text, a: branch('a'), b: branch('b'), join: text });
    const { body, headers } = await run();
    expect(headers).toEqual([['content-type', 'application/json']]);
    const form = (body as Buffer).toString();
    expect(form).toContain('name="a"; filename="a"\r\nContent-Type: application/octet-stream\r\n\r\na(in)\r\n');
    expect(form).toContain('name="b"; filename="b"\r\nContent-Type: application/octet-stream\r\n\r\nb(in)\r\n');
    expect(calls[0]?.rawHeaders).toContain('text/plain');
    expect(calls[1]?.rawHeaders).toEqual(['x-own', '1', 'content-length', '2']);
    expect(calls.every(({ admitted, id }) => admitted && id === 'r1')).toBe(true);
  });

  it('joins several leaves by name, JSON as what it says', async () => {
    const { run } = setUp('dag: {s: [a, b, c]}', {
      s: text,
      a: () => '{"n": 9007199254740993}',
      b: () => 'plain',
      c: () => '[1]',
    });
    expect(((await run()).body as Buffer).toString()).toBe('{"a": {"n": 9007199254740993}, "b": "plain", "c": [1]}');
  });

  it('refuses to join a binary leaf, by name', async () => {
    const { run } = setUp('dag: {s: [a, b]}', { s: text, a: () => Buffer.from([0xff, 0xfe]), b: text });
    await expect(run()).rejects.toThrow('The output of a is binary');
  });

  it('passes the status, the type and the headers of its only leaf on', async () => {
    const headers = [
      ['content-type', 'image/png'],
      ['x-kind', 'png'],
    ] as const;
    const { run } = setUp('dag: {a: [b]}', { a: text, b: async () => reply('png', { status: 201, headers }) });
    expect(await run()).toMatchObject({ status: 201, headers });
  });

  it('ends a node that streams more than an answer may have', async () => {
    let ended = false;
    const stream = async () =>
      reply('', {
        body: (async function* () {
          try {
            for (;;) yield Buffer.alloc(300);
          } finally {
            ended = true;
          }
        })(),
      });
    const { run, called } = setUp('models: {retry-attempts: 0}\ndag: {a: [b]}', { a: stream, b: text });
    await expect(run()).rejects.toThrow(
      'Error executing a: It streams more than 1000 bytes, the limit set by max_response_size.',
    );
    expect(ended).toBe(true);
    expect(called()).toEqual(['a']);
  });

  /** Ends when it is told to, as the stream of a worker does. */
  function hanging() {
    let end: (() => void) | undefined;
    const state = { ended: false };
    const body: AsyncIterable<Buffer> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise((resolve) => (end = () => resolve({ done: true, value: undefined }))),
        return: () => {
          state.ended = true;
          end?.();
          return Promise.resolve({ done: true, value: undefined });
        },
      }),
    };
    return { state, answer: async () => reply('', { body }) };
  }

  it('ends the stream of a node in time', async () => {
    const { state, answer } = hanging();
    const { run } = setUp('models: {retry-attempts: 0, timeout-ms: 20}\ndag: {a: [b]}', { a: answer, b: text });
    await expect(run()).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', message: expect.stringContaining('(timeout-ms)') });
    expect(state.ended).toBe(true);
  });

  it('ends the stream of a node when another fails, and when the client leaves', async () => {
    const first = hanging();
    const spec = 'models: {retry-attempts: 0}\ndag: {a: [b, c]}';
    const one = setUp(spec, { a: text, b: first.answer, c: failing('HANDLER_FAILED') });
    await expect(one.run()).rejects.toThrow('Error executing c');
    expect(first.state.ended).toBe(true);
    const second = hanging();
    const client: Client = { gone: false, onGone: undefined };
    const other = setUp(spec, { a: text, b: second.answer, c: text }, client);
    setImmediate(() => client.onGone?.());
    await expect(other.run()).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(second.state.ended).toBe(true);
  });

  it('takes the whole of what a node streams', async () => {
    const stream = async () =>
      reply('', {
        body: (async function* () {
          yield Buffer.from('one ');
          yield Buffer.from('two');
        })(),
      });
    const { run } = setUp('dag: {a: [b]}', { a: stream, b: (request) => `got ${text(request)}` });
    expect(((await run()).body as Buffer).toString()).toBe('got one two');
  });

  it('tries a node that fails again, as often as it may', async () => {
    let left = 1;
    const { run, called } = setUp('models: {retry-attempts: 1}\ndag: {a: [b]}', {
      a: (request) => (left-- > 0 ? failing('HANDLER_FAILED')() : text(request)),
      b: text,
    });
    expect(((await run()).body as Buffer).toString()).toBe('in');
    expect(called()).toEqual(['a', 'a', 'b']);
  });

  it.each([
    ['HANDLER_FAILED', undefined, 3],
    ['DEADLINE_EXCEEDED', undefined, 3],
    ['PREDICTION_ERROR', 500, 3],
    ['PREDICTION_ERROR', 422, 1],
    ['QUEUE_FULL', undefined, 1],
    ['BAD_REQUEST', undefined, 1],
  ] as const)('names the node that failed: %s %s after %i calls', async (code, status, count) => {
    const { run, called } = setUp('models: {retry-attempts: 2}\ndag: {a: [b]}', { a: text, b: failing(code, status) });
    await expect(run()).rejects.toMatchObject({ code, status, message: expect.stringMatching(/^Error executing b: no/) });
    expect(called().filter((node) => node === 'b')).toHaveLength(count);
  });

  it('ends the other branches when one fails', async () => {
    let ended = false;
    const hanging = (request: PredictRequest) =>
      new Promise<string>((_, reject) => {
        request.client!.onGone = () => {
          ended = true;
          reject(new ServeError('CANCELLED', 'gone'));
        };
      });
    const { run, called } = setUp(diamond, { split: text, a: hanging, b: failing('BAD_REQUEST'), join: text });
    await expect(run()).rejects.toThrow('Error executing b: no');
    expect(ended).toBe(true);
    expect(called()).not.toContain('join');
  });

  it('ends when its client leaves, and starts no further node', async () => {
    const client: Client = { gone: false, onGone: undefined };
    const { run, called } = setUp(
      'dag: {a: [b]}',
      {
        a: (request) => {
          client.onGone?.();
          return text(request);
        },
        b: text,
      },
      client,
    );
    await expect(run()).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(called()).toEqual(['a']);
  });

  it('gives each attempt its own time', async () => {
    const { run, calls } = setUp('models: {timeout-ms: 1000}\ndag: {a: [b]}', { a: text, b: text });
    await run();
    expect(calls[1]!.deadline).toBeGreaterThanOrEqual(calls[0]!.deadline!);
  });
});
