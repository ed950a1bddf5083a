import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, get, metric, post, send } from '../../helpers/client.js';
import { RawConnection } from '../../helpers/raw.js';
import { startServer, type TestServer } from '../../helpers/server.js';
import { until } from '../../helpers/until.js';

// What was observed of TorchServe with several requests at once, or with time passing. Where it lost answers, ours must come.

const one = { minWorkers: 1, maxWorkers: 1 };
const kit = (config: object = {}) => ({ handler: 'kit', config: { ...one, kit: {}, ...config } });
let server: TestServer;
beforeAll(async () => {
  server = await startServer({
    models: {
      kit: kit(),
      batched: kit({ batchSize: 4, maxBatchDelay: 500 }),
      slow: kit({ responseTimeout: 1, jobQueueSize: 2 }),
      clientto: kit({ clientTimeoutInMills: 400 }),
      ticket: kit({ useJobTicket: true }),
      gone: kit(),
    },
  });
});
afterAll(() => server.stop());

const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);
const repeat = (times: number, model: string, body: unknown) =>
  Promise.all(Array.from({ length: times }, () => predict(model, body)));
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);
const pidOf = async (model: string) => ((await predict(model, { mode: 'pid' })).json as { pid: number }).pid;
const gauge = (name: string, model: string, value: number) =>
  until(
    async () => ((await metric(server.metrics, name, { model })) === value ? true : undefined),
    `${name} of ${model} is ${value}`,
  );
const running = (model: string, count = 1) => gauge('onnxserve_in_flight', model, count);

describe('batches', () => {
  const places = (answers: readonly Answer[]) =>
    answers.map(({ json }) => json as { batch: number; index: number }).map(({ batch, index }) => `${index + 1} of ${batch}`);
  const order = { mode: 'batch' };

  it('four at once go together without waiting for the delay', async () => {
    expect(places(await repeat(4, 'batched', order)).toSorted()).toEqual(['1 of 4', '2 of 4', '3 of 4', '4 of 4']);
  });

  it('of six, four go together and two after the delay', async () => {
    const six = places(await repeat(6, 'batched', order)).toSorted();
    expect(six).toEqual(['1 of 2', '1 of 4', '2 of 2', '2 of 4', '3 of 4', '4 of 4']);
  });

  it('what is queued behind a run makes full batches', async () => {
    const first = predict('batched', { mode: 'batch', ms: 800 });
    await running('batched');
    const five = repeat(5, 'batched', order);
    expect(places([await first])).toEqual(['1 of 1']);
    expect(places(await five).toSorted()).toEqual(['1 of 1', '1 of 4', '2 of 4', '3 of 4', '4 of 4']);
  });

  it.each([
    ['raise', 500],
    ['wronglen', 500],
    ['prederr', 418],
    ['memerr', 507],
  ])('a handler of whole batches that fails by %s fails the batch with %d, and its worker lives', async (mode, status) => {
    const pid = await pidOf('batched');
    const args = mode === 'prederr' ? { mode, code: 418 } : { mode };
    const answers = await repeat(3, 'batched', args);
    expect(statuses(answers)).toEqual([status, status, status]);
    expect(answers.map(({ json }) => json)).toMatchObject([{ code: status }, { code: status }, { code: status }]);
    expect(await pidOf('batched')).toBe(pid);
  });

  it('each of a batch gets the status that the handler set', async () => {
    const answers = await repeat(3, 'batched', { mode: 'status', code: 201 });
    expect(answers.map(({ status, text }) => [status, text])).toEqual(Array.from({ length: 3 }, () => [201, 'status body']));
  });

  it('each of a batch gets its own stream', async () => {
    const answers = await repeat(3, 'batched', { mode: 'stream', n: 2 });
    expect(answers.map(({ text }) => text)).toEqual(Array.from({ length: 3 }, () => 'chunk0;chunk1;last;'));
  });

  it('a batch whose worker dies is answered, and the worker comes back', async () => {
    const pid = await pidOf('batched');
    expect(statuses(await repeat(3, 'batched', { mode: 'crash' }))).toEqual([500, 500, 500]);
    expect(await pidOf('batched')).not.toBe(pid);
  });
});

describe('queue and timeouts', () => {
  it('a full queue is told at once; what was taken is answered', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => predict('slow', { mode: 'sleep', ms: 200 })));
    const taken = answers.filter(({ status }) => status === 200);
    // One runs, two wait, and one more may be prepared for the worker.
    expect([3, 4]).toContain(taken.length);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expect(answer).toMatchObject({ status: 503, json: { reason: 'queue-full', type: 'ServiceUnavailableException' } });
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
  });

  it('a run over responseTimeout is answered, its worker replaced, and what waits is served', async () => {
    const pid = await pidOf('slow');
    const late = predict('slow', { mode: 'sleep', ms: 60_000 });
    await running('slow');
    const waiting = repeat(2, 'slow', { mode: 'sleep', ms: 10 });
    expect(await late).toMatchObject({ status: 500, json: { reason: 'response-timeout' } });
    expect((await waiting).map(({ status, text }) => [status, text])).toEqual([
      [200, 'slept'],
      [200, 'slept'],
    ]);
    expect(await pidOf('slow')).not.toBe(pid);
  });

  it('responseTimeout counts from chunk to chunk, not over the stream', async () => {
    // Longer than the limit of a second in all, shorter each.
    const answer = await predict('slow', { mode: 'stream', n: 4, ms: 400 });
    expect([answer.status, answer.text]).toEqual([200, 'chunk0;chunk1;chunk2;chunk3;last;']);
  });

  it('an expired request is answered, whether it runs or waits; later ones are served', async () => {
    const ran = predict('clientto', { mode: 'sleep', ms: 900 });
    await running('clientto');
    const waited = predict('clientto', { mode: 'sleep', ms: 10 });
    for (const answer of await Promise.all([ran, waited])) {
      expect(answer).toMatchObject({ status: 504, json: { code: 504, reason: 'queue-timeout' } });
    }
    const answered = async () => ((await predict('clientto', { mode: 'noop' })).text === 'OK' ? true : undefined);
    await until(answered, 'the worker is done with what nobody waits for');
  });

  it('with tickets a request is taken only by an idle worker', async () => {
    expect((await predict('ticket', { mode: 'noop' })).text).toBe('OK');
    const busy = predict('ticket', { mode: 'sleep', ms: 800 });
    await running('ticket');
    expect(statuses(await repeat(2, 'ticket', { mode: 'noop' }))).toEqual([503, 503]);
    expect((await busy).text).toBe('slept');
    expect((await predict('ticket', { mode: 'noop' })).text).toBe('OK');
  });

  it('a model is removed with a running and a waiting request: both are answered', async () => {
    const both = repeat(2, 'gone', { mode: 'sleep', ms: 500 });
    await until(async () => {
      const names = ['onnxserve_in_flight', 'onnxserve_queue_depth'];
      const counts = await Promise.all(names.map((name) => metric(server.metrics, name, { model: 'gone' })));
      return counts.reduce((sum, count) => sum + count, 0) === 2 ? true : undefined;
    }, 'both are accepted');
    const removed = await send('DELETE', `${server.management}/models/gone`);
    expect(removed.status).toBe(200);
    expect((await both).map(({ status, text }) => [status, text])).toEqual([
      [200, 'slept'],
      [200, 'slept'],
    ]);
    expect((await predict('gone', {})).status).toBe(404);
  });
});

describe('connections', () => {
  const open = () => new RawConnection(server.inference);
  const bodies = (text: string) =>
    text
      .split('\r\n\r\n')
      .slice(1)
      .map((part) => part.split('HTTP/1.1')[0]!.trim());

  it('stay open from one request to the next, also after an error', async () => {
    const wire = open();
    await wire.get('/ping').until(/Healthy/);
    await wire.get('/nope').until(/404[^]*}\s*$/);
    await wire.get('/ping').until(/Healthy[^]*404[^]*Healthy/);
    wire.destroy();
  });

  it('pipelined pings are both answered', async () => {
    const wire = open().get('/ping').get('/ping');
    await wire.until(/Healthy[^]*Healthy/);
    wire.destroy();
  });

  it('pipelined answers keep the order of the requests, each with an id of its own', async () => {
    const wire = open().post('/predictions/kit', { mode: 'sleep', ms: 300 }).get('/ping');
    expect(bodies(await wire.until(/Healthy"\s*}/))[0]).toBe('slept');
    const two = open().post('/predictions/kit', { mode: 'str' }).post('/predictions/kit', { mode: 'noop' });
    const text = await two.until(/OK$/);
    expect(Buffer.from(bodies(text)[0]!, 'latin1').toString('utf8')).toBe('héllo');
    const ids = [...text.matchAll(/x-request-id: (\S+)/gi)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(2);
    wire.destroy();
    two.destroy();
  });

  it('a client that waits without a word gets its answer; one that closes its side has left', async () => {
    const pid = await pidOf('kit');
    const waits = open().post('/predictions/kit', { mode: 'sleep', ms: 300 });
    expect(await waits.until(/slept/)).toMatch(/^HTTP\/1.1 200/);
    waits.destroy();
    // Whether it would still read cannot be seen, and work for those who left is what a busy server can least afford.
    const closes = open().post('/predictions/kit', { mode: 'sleep', ms: 300 }).halfClose();
    expect(await closes.ended()).not.toContain('slept');
    expect(await pidOf('kit')).toBe(pid);
  });

  it('a client that leaves while its request runs harms nobody', async () => {
    const pid = await pidOf('kit');
    const wire = open().post('/predictions/kit', { mode: 'sleep', ms: 500 });
    await running('kit');
    wire.destroy();
    expect(await pidOf('kit')).toBe(pid);
  });
});

describe('streams', () => {
  const stream = (args: object, method = 'POST') =>
    new RawConnection(server.inference).post('/predictions/kit', { mode: 'stream', n: 2, ms: 100, ...args }, method);

  it('chunks are sent as they come', async () => {
    const wire = stream({ n: 1, ms: 1500 });
    expect(await wire.until(/chunk0;/)).not.toContain('last;');
    await wire.until(/\r\n0\r\n/);
    wire.destroy();
  });

  it.each(['raise', 'crash'])(
    '%s after some chunks breaks the connection, so that nobody takes the stream for complete',
    async (what) => {
      const wire = stream(JSON.parse(`{"then":"${what}"}`) as object);
      const text = await wire.ended();
      expect(text).toMatch(/chunk0;[^]*chunk1;/);
      expect(text).not.toMatch(/last;|\r\n0\r\n/);
      await server.untilReady('kit');
      expect((await predict('kit', { mode: 'noop' })).text).toBe('OK');
    },
  );

  it('the connection of a finished stream serves the next request', async () => {
    const wire = stream({ n: 1 });
    await wire.until(/last;\r\n0\r\n[^]*\r\n\r\n$/);
    await wire.get('/ping').until(/Healthy/);
    wire.destroy();
  });

  it('HEAD gets no body, and the connection stays usable', async () => {
    const wire = stream({ n: 1, ms: 20 }, 'HEAD');
    expect(await wire.until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 200/);
    const text = await wire.get('/ping').until(/Healthy/);
    expect(text).not.toContain('chunk0;');
    wire.destroy();
  });
});

it('none of this has harmed the other models', async () => {
  expect((await get(`${server.inference}/ping`)).status).toBe(200);
  for (const model of ['kit', 'batched', 'slow', 'clientto', 'ticket']) {
    await server.untilReady(model);
    expect((await predict(model, { mode: 'noop' })).text).toBe('OK');
  }
});
