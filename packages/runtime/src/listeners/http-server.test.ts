import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { FakeInference, Wire, gate, jsonOf, open, reply } from '../../test-support/listeners.js';
import { type HttpEnded, httpEnded } from '../domain/events.js';

const head = (method: string, path: string, ...headers: string[]) =>
  [`${method} ${path} HTTP/1.1`, 'Host: test', ...headers, '', ''].join('\r\n');
const ping = head('GET', '/ping');
const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4));

describe('body limit', () => {
  it('is exact and its answer can be read', async () => {
    const { at, inference } = await open({ maxRequestSize: 1000 });
    for (const size of [999, 1000]) {
      expect((await fetch(`${at.inference}/predictions/kit`, { method: 'POST', body: 'x'.repeat(size) })).status).toBe(200);
    }
    const answer = await fetch(`${at.inference}/predictions/kit`, { method: 'POST', body: 'x'.repeat(1001) });
    expect(answer.status).toBe(413);
    const { message, reason } = await jsonOf(answer);
    expect(message).toMatch(/1001 bytes.*1000 bytes.*max_request_size/);
    expect(reason).toBe('input-too-large');
    expect(inference.requests).toHaveLength(2);
  });

  it('holds for bodies of unknown length, and the connection stays usable', async () => {
    const { at } = await open({ maxRequestSize: 10 });
    const wire = await Wire.to(at.inference);
    wire.send(`${head('POST', '/predictions/kit', 'Transfer-Encoding: chunked')}6\r\nabcdef\r\n6\r\nabcdef\r\n`);
    await wire.until(/HTTP\/1\.1 413 [^]*input-too-large/);
    wire.send(`2\r\nab\r\n0\r\n\r\n${ping}`);
    await wire.until(/HTTP\/1\.1 200 /);
  });

  it('lets a large body through in one piece', async () => {
    const { at, inference } = await open({ maxRequestSize: 40_000_000 });
    const body = Buffer.alloc(30_000_000, 'onnx');
    const answer = await fetch(`${at.inference}/predictions/kit`, { method: 'POST', body });
    expect(Buffer.from(await answer.arrayBuffer()).equals(body)).toBe(true);
    expect(inference.last.body.length).toBe(30_000_000);
  });
});

describe('chunked bodies', () => {
  it('of single bytes arrive whole', async () => {
    const { at, inference } = await open();
    const wire = await Wire.to(at.inference);
    const expected = Array.from({ length: 70_000 }, (_, index) => String.fromCharCode(97 + (index % 26))).join('');
    wire.send(head('POST', '/predictions/kit', 'Transfer-Encoding: chunked'));
    wire.send(
      expected
        .split('')
        .map((letter) => `1\r\n${letter}\r\n`)
        .join(''),
    );
    wire.send('0\r\n\r\n');
    await wire.until(/HTTP\/1\.1 200 /);
    expect(inference.last.body.toString()).toBe(expected);
  });

  it('that stop half-way end in 408 and never reach the model', async () => {
    const { at, inference } = await open({}, { limits: { requestTimeout: 150, headersTimeout: 100, checkInterval: 20 } });
    const wire = await Wire.to(at.inference);
    wire.send(`${head('POST', '/predictions/kit', 'Content-Length: 10')}half`);
    const answer = await wire.closed();
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(bodyOf(answer)).toMatchObject({ code: 408, type: 'RequestTimeoutException' });
    expect(inference.requests).toHaveLength(0);
  });

  it('that the client gives up on never reach the model', async () => {
    const { at, inference } = await open();
    const ended = gate<HttpEnded>();
    const stop = httpEnded.subscribe(ended.open);
    const wire = await Wire.to(at.inference);
    wire.send(`${head('POST', '/predictions/kit', 'Content-Length: 10')}half`).socket.end();
    wire.socket.destroy();
    expect(await ended.promise).toMatchObject({ status: 499, reason: 'cancelled' });
    stop();
    expect(inference.requests).toHaveLength(0);
  });
});

describe('Expect', () => {
  it('100-continue is honoured', async () => {
    const { at } = await open();
    const wire = await Wire.to(at.inference);
    wire.send(head('POST', '/predictions/kit', 'Content-Length: 2', 'Expect: 100-continue'));
    await wire.until(/^HTTP\/1\.1 100 Continue/);
    wire.send('hi');
    await wire.until(/HTTP\/1\.1 200 [^]*\r\n\r\nhi$/);
  });

  it('is not answered with 100 when the body would be refused', async () => {
    const { at } = await open({ maxRequestSize: 1 });
    const wire = await Wire.to(at.inference);
    wire.send(head('POST', '/predictions/kit', 'Content-Length: 2', 'Expect: 100-continue'));
    expect(await wire.until(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 413 /);
  });

  it('of anything else is 417', async () => {
    const { at } = await open();
    const wire = await Wire.to(at.inference);
    wire.send(head('POST', '/predictions/kit', 'Content-Length: 0', 'Expect: something'));
    expect(await wire.until(/requestId/)).toMatch(/^HTTP\/1\.1 417 /);
  });
});

describe('what is not HTTP', () => {
  it.each([
    ['a garbled request line', 'GARBAGE\r\n\r\n', 400],
    ['a content length that is no number', head('POST', '/predictions/kit', 'Content-Length: abc'), 400],
    ['two contradicting lengths', head('POST', '/predictions/kit', 'Content-Length: 1', 'Transfer-Encoding: chunked'), 400],
    ['headers over the limit', head('GET', '/ping', `X-Big: ${'a'.repeat(40_000)}`), 431],
  ])('%s gets a JSON error', async (_what, data, status) => {
    const { at } = await open();
    const wire = await Wire.to(at.inference);
    const answer = await wire.send(data).closed();
    expect(answer.startsWith(`HTTP/1.1 ${status} `)).toBe(true);
    expect(bodyOf(answer)).toMatchObject({ code: status, type: 'BadRequestException', message: expect.stringMatching(/./) });
  });

  it('is answered although its client goes on sending', async () => {
    const { at } = await open();
    const { hostname, port } = new URL(at.inference);
    for (const start of ['nonsense\r\n\r\n', `${head('GET', '/ping').slice(0, -2)}X: ${'a'.repeat(40_000)}`]) {
      const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
      const ended = once(socket, 'close');
      const received: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => received.push(chunk));
      socket.write(start);
      // The server has refused it by now and knows that more is to come.
      await once(socket, 'data');
      socket.write(Buffer.alloc(1_000_000, 'x'));
      socket.end();
      await ended;
      expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 4(00|31) [^]*"reason": "bad-input"/);
    }
  });

  it('a target that is no path is 400', async () => {
    const { at } = await open();
    const wire = await Wire.to(at.inference);
    expect(await wire.send(head('OPTIONS', '*')).until(/requestId/)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('connections', () => {
  it('answer pipelined requests in order', async () => {
    const slow = gate();
    const inference = new FakeInference(async (request) => {
      if (request.body.toString() === 'one') await slow.promise;
      return reply(request.body);
    });
    const { at } = await open({}, { inference });
    const wire = await Wire.to(at.inference);
    const one = head('POST', '/predictions/kit', 'Content-Length: 3', 'x-request-id: one');
    const two = head('POST', '/predictions/kit', 'Content-Length: 3', 'x-request-id: two');
    wire.send(`${one}one${two}two`);
    slow.open();
    const answer = await wire.until(/\r\n\r\ntwo$/);
    expect(answer.match(/x-request-id: \w+/g)).toEqual(['x-request-id: one', 'x-request-id: two']);
  });

  it('of HTTP/1.0 close after the answer, HEAD has no body, the absolute form is taken', async () => {
    const { at } = await open();
    const old = await (await Wire.to(at.inference)).send('GET /ping HTTP/1.0\r\n\r\n').closed();
    expect(old).toMatch(/^HTTP\/1\.1 200 [^]*Healthy/);
    const wire = await Wire.to(at.inference);
    wire.send(head('HEAD', '/ping', 'Connection: close'));
    expect(await wire.closed()).toMatch(/content-length: 26\r\n[^]*\r\n\r\n$/);
    const absolute = await Wire.to(at.inference);
    await absolute.send(head('GET', 'http://test/ping')).until(/Healthy/);
  });

  it('say how long they stay open', async () => {
    const { at } = await open({ keepAliveTimeout: 61 });
    const wire = await Wire.to(at.inference);
    expect(await wire.send(ping).until(/Healthy/)).toContain('Keep-Alive: timeout=61');
  });

  it('close when idle for longer than the setting', async () => {
    const { at } = await open({ keepAliveTimeout: 0.05 });
    const wire = await Wire.to(at.inference);
    await wire.send(ping).closed();
  });
});

describe('draining', () => {
  it('closes idle connections at once, finishes what is in flight and says close', async () => {
    const running = gate();
    const finish = gate();
    const inference = new FakeInference(async (request) => {
      running.open();
      await finish.promise;
      return reply(request.body);
    });
    const { at, listeners } = await open({}, { inference });
    const idle = await Wire.to(at.inference);
    await idle.send(ping).until(/Healthy/);
    const busy = await Wire.to(at.inference);
    busy.send(`${head('POST', '/predictions/kit', 'Content-Length: 2')}hi`);
    await running.promise;
    listeners.drain();
    listeners.closeIdle();
    await idle.closed();
    const late = await Wire.to(at.inference);
    expect(await late.send(head('GET', '/health/ready')).closed()).toMatch(/^HTTP\/1\.1 503 /);
    const closed = listeners.close(5000);
    finish.open();
    expect(await busy.closed()).toMatch(/^HTTP\/1\.1 200 [^]*Connection: close\r\n[^]*\r\n\r\nhi$/);
    await closed;
    await expect(Wire.to(at.inference)).rejects.toThrow('ECONNREFUSED');
  });
});

describe('events', () => {
  it('tell of each exchange', async () => {
    const { at } = await open();
    const events: HttpEnded[] = [];
    const second = gate();
    const stop = httpEnded.subscribe((event) => {
      events.push(event);
      if (events.length === 2) second.open();
    });
    await fetch(`${at.inference}/predictions/kit?a=1`, { method: 'POST', body: 'hello', headers: { 'x-request-id': 'e-1' } });
    await fetch(`${at.management}/nope`);
    await second.promise;
    stop();
    expect(events).toMatchObject([
      {
        listener: 'inference',
        method: 'POST',
        url: '/predictions/kit?a=1',
        status: 200,
        requestId: 'e-1',
        requestBytes: 5,
        responseBytes: 5,
      },
      { listener: 'management', method: 'GET', status: 404, reason: 'not-found', stages: undefined },
    ]);
    expect(events[0]?.remote).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(events[0]?.stages).toBeDefined();
  });
});

describe('a client that leaves', () => {
  it('is noticed while its request waits', async () => {
    const noticed = gate();
    const inference = new FakeInference(async (request) => {
      const { client } = request;
      if (!client) throw new Error('no client');
      client.onGone = () => noticed.open();
      wire.socket.destroy();
      await noticed.promise;
      return reply('unused' as never);
    });
    const { at } = await open({}, { inference });
    const wire = await Wire.to(at.inference);
    wire.send(`${head('POST', '/predictions/kit', 'Content-Length: 2')}hi`);
    await noticed.promise;
    expect(inference.last.client?.gone).toBe(true);
  });
});
