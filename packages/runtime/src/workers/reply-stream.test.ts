import { describe, expect, it, vi } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { ReplyStream } from './reply-stream.js';

function make() {
  const taken = vi.fn<(bytes: number) => void>();
  const left = vi.fn<() => void>();
  const stream = new ReplyStream(taken, left);
  return { stream, taken, left, iterator: stream[Symbol.asyncIterator]() };
}
const text = (step: IteratorResult<Buffer, undefined>) => (step.done === true ? 'end' : String(step.value));

describe('a stream of an answer', () => {
  it('gives chunks in order, then its end', async () => {
    const { stream, iterator, left } = make();
    const waiting = iterator.next();
    stream.push(Buffer.from('a'));
    stream.push(Buffer.from('b'));
    expect(text(await waiting)).toBe('a');
    stream.end();
    expect([text(await iterator.next()), text(await iterator.next()), text(await iterator.next())]).toEqual(['b', 'end', 'end']);
    await iterator.return?.();
    expect(left).not.toHaveBeenCalled();
  });

  it('tells what was taken when the next is asked for', async () => {
    const { stream, iterator, taken } = make();
    stream.push(Buffer.alloc(5));
    await iterator.next();
    expect(taken).not.toHaveBeenCalled();
    void iterator.next();
    expect(taken.mock.calls).toEqual([[5]]);
  });

  it.each([true, false])('breaks with the error, waited for: %s', async (early) => {
    const { stream, iterator, left } = make();
    const error = new ServeError('WORKER_DIED', 'died');
    if (early) {
      const waiting = iterator.next();
      stream.fail(error);
      await expect(waiting).rejects.toBe(error);
    } else {
      stream.fail(error);
      await expect(iterator.next()).rejects.toBe(error);
    }
    expect(text(await iterator.next())).toBe('end');
    expect(left).not.toHaveBeenCalled();
  });

  it('is left before its first chunk', async () => {
    const { stream, iterator, left } = make();
    await iterator.return?.();
    await iterator.return?.();
    stream.push(Buffer.from('late'));
    expect(left).toHaveBeenCalledTimes(1);
    expect(text(await iterator.next())).toBe('end');
  });

  it('is left while a chunk is waited for', async () => {
    const { iterator, left } = make();
    const waiting = iterator.next();
    await iterator.return?.();
    expect(text(await waiting)).toBe('end');
    expect(left).toHaveBeenCalledTimes(1);
  });

  it('is left from within a loop', async () => {
    const { stream, left } = make();
    stream.push(Buffer.from('a'));
    stream.push(Buffer.from('b'));
    for await (const chunk of stream) {
      expect(String(chunk)).toBe('a');
      break;
    }
    expect(left).toHaveBeenCalledTimes(1);
  });
});
