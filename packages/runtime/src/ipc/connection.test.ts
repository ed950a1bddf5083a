import { createServer, type Socket, connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Connection } from './connection.js';
import { BrokenFrameError } from './frames.js';

const cleanups: Array<() => void> = [];
afterEach(() => {
  for (const clean of cleanups.splice(0)) clean();
});

async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true });
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as { port: number }).port, '127.0.0.1');
  const other = await accepted;
  cleanups.push(() => {
    client.destroy();
    other.destroy();
    server.close();
  });
  return [client, other];
}

/** What arrives at one end, and how that ended. */
function receiver(socket: Socket) {
  const metas: unknown[] = [];
  const waiting: Array<{ count: number; resolve: () => void }> = [];
  let end!: (error: Error | undefined) => void;
  const closed = new Promise<Error | undefined>((resolve) => (end = resolve));
  let bytes = 0;
  const connection = new Connection(
    socket,
    ({ meta, blob }) => {
      metas.push(meta);
      bytes += blob.length;
      for (const it of waiting) if (metas.length >= it.count) it.resolve();
    },
    end,
  );
  const received = (count: number) =>
    metas.length >= count ? Promise.resolve() : new Promise<void>((resolve) => waiting.push({ count, resolve }));
  return { connection, metas, received, closed, bytes: () => bytes };
}

describe('a connection', () => {
  it('keeps the order of frames of all sizes, in both directions', async () => {
    const [a, b] = await pair();
    const left = receiver(a);
    const right = receiver(b);
    for (let i = 0; i < 50; i++) {
      left.connection.send(i, [Buffer.alloc(i % 10 === 0 ? 300_000 : i)]);
      right.connection.send(100 + i);
    }
    await Promise.all([left.received(50), right.received(50)]);
    expect(right.metas).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(left.metas).toEqual(Array.from({ length: 50 }, (_, i) => 100 + i));
  });

  it('flushes what was sent in a turn before the turn ends', async () => {
    const [a, b] = await pair();
    const left = receiver(a);
    const right = receiver(b);
    left.connection.send('now');
    expect(a.writableCorked).toBe(1);
    left.connection.flush();
    expect(a.writableCorked).toBe(0);
    await right.received(1);
  });

  it('tells when the other end has closed, and drops what is sent afterwards', async () => {
    const [a, b] = await pair();
    const left = receiver(a);
    b.end();
    b.resume();
    expect(await left.closed).toBeUndefined();
    left.connection.send('into the void');
    await left.connection.writable();
  });

  it('waits until the other end takes what was written', async () => {
    const [a, b] = await pair();
    const left = receiver(a);
    b.pause();
    left.connection.send({}, [Buffer.alloc(20_000_000)]);
    left.connection.flush();
    let taken = false;
    const writable = left.connection.writable().then(() => (taken = true));
    await left.received(0);
    expect(taken).toBe(false);
    b.resume();
    await writable;
  });

  it('closes over bytes that are no frame', async () => {
    const [a, b] = await pair();
    const left = receiver(a);
    b.write(Buffer.from([5, 0, 0, 0, 255, 255, 255, 255, 1]));
    expect(await left.closed).toBeInstanceOf(BrokenFrameError);
    expect(left.metas).toEqual([]);
  });
});
