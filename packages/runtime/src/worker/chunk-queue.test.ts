import { expect, it } from 'vitest';
import { ChunkQueue } from './chunk-queue.js';

const chunk = (text: string) => Buffer.from(text);

it('gives what was pushed, in order, and ends', async () => {
  const queue = new ChunkQueue(() => undefined);
  queue.push(chunk('a'));
  queue.push(chunk('b'));
  queue.end();
  queue.push(chunk('late'));
  const got: string[] = [];
  for await (const it of queue) got.push(Buffer.from(it).toString());
  expect(got).toEqual(['a', 'b']);
});

it('wakes a consumer that waits, and counts only what it has not taken', async () => {
  const queue = new ChunkQueue(() => undefined);
  const chunks = queue[Symbol.asyncIterator]();
  const next = chunks.next();
  queue.push(chunk('a'));
  expect(queue.pending).toBe(0);
  queue.push(chunk('b'));
  expect(queue.pending).toBe(1);
  expect(await next).toMatchObject({ done: false });
});

it('tells when the last one was taken', async () => {
  let drained = 0;
  const queue = new ChunkQueue(() => drained++);
  const chunks = queue[Symbol.asyncIterator]();
  queue.push(chunk('a'));
  queue.push(chunk('b'));
  await chunks.next();
  expect(drained).toBe(0);
  await chunks.next();
  expect(drained).toBe(1);
});

it('fails after what came before', async () => {
  const queue = new ChunkQueue(() => undefined);
  const chunks = queue[Symbol.asyncIterator]();
  queue.push(chunk('a'));
  queue.fail(new Error('broken'));
  expect(await chunks.next()).toMatchObject({ done: false });
  await expect(chunks.next()).rejects.toThrow('broken');
});

it('lets a consumer go that returns while it waits', async () => {
  const queue = new ChunkQueue(() => undefined);
  const chunks = queue[Symbol.asyncIterator]();
  const next = chunks.next();
  await chunks.return!();
  expect(await next).toEqual({ done: true, value: undefined });
  queue.push(chunk('late'));
  expect(queue.pending).toBe(0);
});
