import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeSession } from '@onnxserve/handler-kit/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CompiledBlocks, compileBlocks } from './compiled-blocks.js';

let code: CompiledBlocks;
beforeAll(() => {
  code = compileBlocks('docs/migration.md');
});
afterAll(() => code.remove());

it('classifier.ts answers as the Python handler beside it does', async () => {
  writeFileSync(join(code.folder, 'labels.json'), '["cat","dog"]');
  const session = fakeSession({
    inputs: [{ name: 'input', datatype: 'FP32', shape: ['batch', 2] }],
    outputs: [{ name: 'logits', datatype: 'FP32', shape: ['batch', 2] }],
    run: ({ input }) => ({ logits: input! }),
  });
  const payloads = [{ values: [1, 3] }, { values: [1] }, { values: [2, 0] }];
  const results = await code.run('classifier.ts', payloads, { session, directory: code.folder });
  expect(results.map((result) => result.ok && result.json())).toEqual([{ label: 'dog' }, false, { label: 'cat' }]);
  expect(results[0]?.ok && results[0].headers['x-labels']).toBe('2');
  expect(results[1]).toMatchObject({ status: 400 });
  expect(results.metrics.map(({ name }) => name)).toEqual(['Answers', 'Answers']);
});

it('moved.ts', async () => {
  const [hello, nobody, stream] = await code.run('moved.ts', ['Ada', '', 'stream']);
  expect(hello).toMatchObject({ ok: true, status: 201 });
  expect(hello?.ok && hello.json()).toEqual({ hello: 'Ada' });
  expect(nobody).toMatchObject({ ok: false, status: 422 });
  expect(stream?.ok && stream.chunks?.length).toBe(2);
});

it('has run every block', () => {
  expect(code.notRun()).toEqual([]);
});
