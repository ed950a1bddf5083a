import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { FakeInference, Wire, gate, open, reply } from '../../test-support/listeners.js';
import { ServeError } from '../domain/errors.js';
import type { PredictReply } from '../domain/request.js';

const request = 'POST /predictions/kit HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n';
const streaming = async (body: () => AsyncIterable<Buffer>, more: Partial<PredictReply> = {}) => {
  const { at } = await open({}, { inference: new FakeInference(() => reply(body(), more)) });
  return at.inference;
};

describe('streams', () => {
  it('are sent chunk by chunk, and their timing follows as a trailer', async () => {
    const more = gate();
    const base = await streaming(async function* () {
      yield Buffer.from('chunk0;');
      await more.promise;
      yield Buffer.from('last;');
    });
    const wire = await Wire.to(base);
    wire.send(request);
    const before = await wire.until(/chunk0;/);
    expect(before).not.toContain('last;');
    expect(before).toContain('Trailer: Server-Timing\r\n');
    more.open();
    expect(await wire.until(/\r\n0\r\n[^]*\r\n\r\n$/)).toMatch(/last;\r\n0\r\nServer-Timing: queue;dur=[^]*total;dur=/);
  });

  it('keep status and type of the handler and leave the connection usable', async () => {
    const base = await streaming(
      async function* () {
        yield Buffer.from('data: 1\n\n');
      },
      { status: 201, headers: [['content-type', 'text/event-stream']] },
    );
    for (let round = 0; round < 2; round++) {
      const answer = await fetch(`${base}/predictions/kit`, { method: 'POST' });
      expect(answer.status).toBe(201);
      expect(answer.headers.get('content-type')).toBe('text/event-stream');
      expect(await answer.text()).toBe('data: 1\n\n');
    }
  });

  it("that fail before their first chunk get the error's own status", async () => {
    const failing: AsyncIterator<Buffer> = { next: () => Promise.reject(new ServeError('HANDLER_FAILED', 'no')) };
    const base = await streaming(() => ({ [Symbol.asyncIterator]: () => failing }));
    expect((await fetch(`${base}/predictions/kit`, { method: 'POST' })).status).toBe(500);
  });

  it.each(['1.1', '1.0'])('that fail later break the connection, never ending cleanly (HTTP/%s)', async (version) => {
    const fail = gate();
    const base = await streaming(async function* () {
      yield Buffer.from('chunk0;');
      await fail.promise;
      throw new ServeError('WORKER_DIED', 'gone');
    });
    const wire = await Wire.to(base);
    const errors: Error[] = [];
    wire.socket.on('error', (error) => errors.push(error));
    wire.send(request.replace('1.1', version));
    await wire.until(/chunk0;/);
    fail.open();
    const all = await wire.closed();
    expect(all).not.toContain('\r\n0\r\n');
    expect(all).not.toContain('gone');
    // Without chunks, only a reset tells the client that something is missing.
    if (version === '1.0') expect(errors).toMatchObject([{ code: 'ECONNRESET' }]);
  });

  it('stop when the client leaves, also while it waits for a chunk', async () => {
    const returned = gate();
    const iterator: AsyncIterator<Buffer> = {
      next: () => (sent++ === 0 ? Promise.resolve({ done: false, value: Buffer.from('chunk0;') }) : new Promise(() => undefined)),
      return: async () => {
        returned.open();
        return { done: true, value: undefined };
      },
    };
    let sent = 0;
    const base = await streaming(() => ({ [Symbol.asyncIterator]: () => iterator }));
    const wire = await Wire.to(base);
    wire.send(request);
    await wire.until(/chunk0;/);
    wire.socket.destroy();
    await returned.promise;
  });

  it('wait for a client that reads slowly', async () => {
    let produced = 0;
    const stalled = gate();
    const chunk = Buffer.alloc(1 << 20, 'x');
    const total = 64;
    const base = await streaming(async function* () {
      while (produced < total) {
        produced++;
        yield chunk;
        // Nothing more is asked for once the buffers on the way are full.
        clearTimeout(quiet);
        quiet = setTimeout(() => stalled.open(), 100);
      }
    });
    let quiet: NodeJS.Timeout | undefined;
    const wire = await Wire.to(base);
    wire.socket.pause();
    wire.send(request.replace('Host', 'Connection: close\r\nHost'));
    await stalled.promise;
    expect(produced).toBeLessThan(total);
    let received = 0;
    wire.socket.on('data', (data) => (received += data.length));
    wire.socket.resume();
    await wire.closed();
    expect(produced).toBe(total);
    expect(received).toBeGreaterThan(total * chunk.length);
  });
});

describe('compression', () => {
  const large = Buffer.from(JSON.stringify({ values: Array.from({ length: 30_000 }, (_, index) => index) }));
  const json = [['content-type', 'application/json']] as const;
  const ask = async (body: Buffer, headers: PredictReply['headers'], acceptEncoding: string) => {
    const { at } = await open({}, { inference: new FakeInference(() => reply(body, { headers })) });
    const wire = await Wire.to(at.inference);
    wire.send(`POST /predictions/kit HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n${acceptEncoding}\r\n`);
    const chunks: Buffer[] = [];
    wire.socket.on('data', (data) => chunks.push(data));
    await wire.closed();
    const all = Buffer.concat(chunks);
    const end = all.indexOf('\r\n\r\n');
    return { head: all.toString('latin1', 0, end), body: all.subarray(end + 4) };
  };

  it('is used for large answers when asked for', async () => {
    const answer = await ask(large, json, 'Accept-Encoding: br, gzip;q=0.5\r\n');
    expect(answer.head).toContain('Content-Encoding: gzip');
    expect(answer.head).toContain('Vary: Accept-Encoding');
    expect(answer.body.length).toBeLessThan(large.length);
    expect(gunzipSync(answer.body).equals(large)).toBe(true);
  });

  it.each([
    ['not asked for', large, json, ''],
    ['refused', large, json, 'Accept-Encoding: gzip;q=0\r\n'],
    ['of a small answer', large.subarray(0, 65_536), json, 'Accept-Encoding: gzip\r\n'],
    ['of an image', large, [['content-type', 'image/png']] as const, 'Accept-Encoding: gzip\r\n'],
    ['done by the handler', large, [['content-encoding', 'br']] as const, 'Accept-Encoding: gzip\r\n'],
  ])('is left out when %s', async (_what, body, headers, accept) => {
    const answer = await ask(body, headers, accept);
    expect(answer.head).not.toContain('gzip');
    expect(answer.body.equals(body)).toBe(true);
  });
});
