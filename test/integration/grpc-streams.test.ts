import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decoded, GrpcClient, input, type Message } from '../helpers/grpc.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

let server: TestServer;
let client: GrpcClient;

beforeAll(async () => {
  const config = { minWorkers: 1, maxWorkers: 1, responseTimeout: 30 };
  server = await startServer({ models: { asks: { handler: 'grpc', config } } });
  client = new GrpcClient(server.grpcInference);
});
afterAll(async () => {
  client.close();
  await server.stop();
});

const asking = (what: object) => ({ model_name: 'asks', input: input({ data: JSON.stringify(what) }) });
const textOf = (message: Message) => (message as { prediction: Buffer }).prediction.toString();
const aborts = async () => {
  const { messages } = await client.call('inference', 'Predictions', asking({ do: 'aborts' }));
  return Number(textOf(messages[0]));
};

/** The worker hears of a client that left a little after the client knows. */
const aborted = (count: number) => until(async () => ((await aborts()) === count ? true : undefined), 'the worker stops', 10_000);

describe('StreamPredictions', () => {
  const stream = (what: object) => client.stream('inference', 'StreamPredictions', asking(what));

  it('sends a message for each chunk and the times at the end', async () => {
    const { code, messages, trailers } = await stream({ do: 'stream', n: 3 }).ended();
    expect([code, messages.map(textOf)]).toEqual([status.OK, ['chunk0;', 'chunk1;', 'chunk2;']]);
    expect(trailers.get('server-timing')[0]).toMatch(/total;dur=/);
  });

  it('sends each chunk when there is one, and works no longer for a client that left', async () => {
    const before = await aborts();
    const running = stream({ do: 'stream', n: 2, ms: 30_000 });
    expect((await running.until(1)).map(textOf)).toEqual(['chunk0;']);
    running.cancel();
    expect((await running.ended()).code).toBe(status.CANCELLED);
    await aborted(before + 1);
  });

  it('answers with one message when the handler does not stream', async () => {
    const { code, messages } = await stream({ do: 'sleep', text: 'whole' }).ended();
    expect([code, messages.map(textOf)]).toEqual([status.OK, ['whole']]);
  });

  it('that breaks on the way ends with its status after what was sent', async () => {
    const { code, details, messages, trailers } = await stream({ do: 'stream', n: 2, status: 503 }).ended();
    expect([code, details]).toEqual([status.UNAVAILABLE, 'broke on the way']);
    expect(messages.map(textOf)).toEqual(['chunk0;', 'chunk1;']);
    expect(trailers.get('x-error-reason')).toHaveLength(1);
  });

  it('fails with its status before the first message', async () => {
    expect(await stream({ do: 'fail', status: 404 }).ended()).toMatchObject({ code: status.NOT_FOUND, messages: [] });
    expect(await stream({ do: 'status', status: 429, text: 'later' }).ended()).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: 'later',
      messages: [],
    });
  });

  it('waits for a client that does not read', async () => {
    const size = 60_000;
    const slow = client.stream('inference', 'StreamPredictions', asking({ do: 'stream', n: 200, text: 'y'.repeat(size) }));
    slow.call.pause();
    // Held back for one client, others are served.
    expect(await aborts()).toBeGreaterThanOrEqual(0);
    slow.call.resume();
    const { code, messages } = await slow.ended();
    expect([code, messages.length]).toEqual([status.OK, 200]);
    expect(messages.every(({ prediction }: Message) => prediction.length === size)).toBe(true);
  });
});

describe('StreamPredictions2', () => {
  const asked = (sequence_id: string | undefined, what: object) => ({
    ...asking(what),
    ...(sequence_id === undefined ? {} : { sequence_id }),
  });

  it('answers in the order of each sequence, also after the client has closed its side', async () => {
    const talk = client.talk('inference', 'StreamPredictions2');
    for (let index = 0; index < 40; index++) {
      talk.call.write?.(asked(index % 2 === 0 ? 'even' : 'odd', { do: 'sleep', ms: index % 3, text: String(index) }));
    }
    talk.call.end?.();
    const { code, messages } = await talk.ended();
    expect(code).toBe(status.OK);
    const of = (id: string) => messages.filter((message: Message) => message.sequence_id === id).map((it) => Number(textOf(it)));
    expect(of('even')).toEqual(Array.from({ length: 20 }, (_, index) => index * 2));
    expect(of('odd')).toEqual(Array.from({ length: 20 }, (_, index) => index * 2 + 1));
  });

  it('tells an error in its place and goes on', async () => {
    const talk = client.talk('inference', 'StreamPredictions2');
    talk.call.write?.(asked('s', { do: 'sleep', text: 'one' }));
    talk.call.write?.(asked('s', { do: 'fail', status: 409, text: 'not two' }));
    talk.call.write?.({ ...asked('s', {}), model_name: 'nobody' });
    talk.call.write?.(asked('s', { do: 'stream', n: 2 }));
    const [one, two, three, four, five] = await talk.until(5);
    expect([textOf(one), textOf(four), textOf(five)]).toEqual(['one', 'chunk0;', 'chunk1;']);
    expect([two.status.code, two.status.message, two.sequence_id]).toEqual([status.ABORTED, 'not two', 's']);
    expect(three.status.code).toBe(status.NOT_FOUND);
    const [detail] = three.status.details;
    expect(detail.type_url).toContain('google.rpc.ErrorInfo');
    expect(decoded('google.rpc.ErrorInfo', detail.value)).toMatchObject({ reason: 'not-found' });
    expect(one.status ?? null).toBeNull();
    talk.call.end?.();
    expect((await talk.ended()).code).toBe(status.OK);
  });

  it('wants a sequence_id of every request', async () => {
    const talk = client.talk('inference', 'StreamPredictions2');
    talk.call.write?.(asked(undefined, { do: 'show' }));
    talk.call.end?.();
    const { code, messages } = await talk.ended();
    expect(code).toBe(status.OK);
    expect(messages).toHaveLength(1);
    expect(messages[0].status.code).toBe(status.INVALID_ARGUMENT);
    expect(messages[0].status.message).toContain('sequence_id');
  });

  it('shows the handler where in a sequence it is', async () => {
    const talk = client.talk('inference', 'StreamPredictions2');
    talk.call.write?.({
      model_name: 'asks',
      sequence_id: 's9',
      input: input({ data: '{"do":"show"}', ts_request_sequence_start: 'true' }),
    });
    const [message] = await talk.until(1);
    const { headers } = JSON.parse(textOf(message)) as { headers: Record<string, string> };
    expect(headers).toMatchObject({ ts_request_sequence_id: 's9', ts_request_sequence_start: 'true' });
    talk.call.end?.();
    await talk.ended();
  });

  it('works no longer for a client that left', async () => {
    const before = await aborts();
    const talk = client.talk('inference', 'StreamPredictions2');
    talk.call.write?.(asked('s', { do: 'sleep', text: 'started' }));
    await talk.until(1);
    talk.call.write?.(asked('s', { do: 'sleep', ms: 30_000 }));
    await until(async () => ((await inFlight()) > 0 ? true : undefined), 'it runs');
    talk.cancel();
    expect((await talk.ended()).code).toBe(status.CANCELLED);
    await aborted(before + 1);
  });
});

async function inFlight(): Promise<number> {
  const text = await (await fetch(`${server.metrics}/metrics`)).text();
  return Number(/^onnxserve_in_flight\{[^}]*model="asks"[^}]*\} (\d+)/m.exec(text)?.[1] ?? 0);
}
