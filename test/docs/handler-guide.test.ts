import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tensor, tensor } from '@onnxserve/handler-kit';
import { fakeSession, multipart, request } from '@onnxserve/handler-kit/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CompiledBlocks, compileBlocks } from './compiled-blocks.js';
import { root } from './markdown.js';

let guide: CompiledBlocks;
beforeAll(() => {
  guide = compileBlocks('docs/handler-guide.md');
});
afterAll(() => guide.remove());

/** A model that gives its input back. */
const echo = (output: string, width: number | string = 'width') =>
  fakeSession({
    inputs: [{ name: 'input', datatype: 'FP32', shape: ['batch', width] }],
    outputs: [{ name: output, datatype: 'FP32', shape: ['batch', width] }],
    run: ({ input }) => ({ [output]: input! }),
  });

it('classifier.ts, with the test of the guide', () => {
  writeFileSync(join(guide.folder, 'labels.json'), '["cat","dog"]');
  const file = join(guide.folder, 'classifier.test.js');
  const result = spawnSync(process.execPath, ['--test', file], { encoding: 'utf8', env: { PATH: process.env['PATH'] } });
  expect(result.stdout).toMatch(/pass 1/);
  expect(result.status).toBe(0);
});

it('form.ts', async () => {
  const form = multipart([
    { name: 'data', data: '1 2', filename: 'numbers.txt' },
    { name: 'scale', data: '2' },
  ]);
  const [answer, without] = await guide.run('form.ts', [form, multipart([{ name: 'other', data: '' }])], {
    session: echo('output'),
  });
  expect(answer).toMatchObject({ ok: true, status: 200 });
  expect(answer?.ok && answer.json()).toEqual({ id: 'test-1', values: [2, 4] });
  expect(without).toMatchObject({ ok: false, status: 400 });
});

it('validated.ts', async () => {
  const session = fakeSession({
    inputs: [{ name: 'lengths', datatype: 'INT64', shape: ['batch', 1] }],
    outputs: [{ name: 'lengths', datatype: 'INT64', shape: ['batch', 1] }],
    run: (feeds) => feeds,
  });
  const [good, bad] = await guide.run(
    'validated.ts',
    [
      { text: 'four', limit: 3 },
      { text: 'x', limit: 'y' },
    ],
    { session },
  );
  expect(good?.ok && good.text()).toContain('3');
  expect(bad).toMatchObject({ status: 400, error: { message: expect.stringContaining('limit') as string } });
});

it('answers.ts', async () => {
  const formats = ['text', 'csv', 'none', 'json'].map((format) => request({ query: { format } }));
  const results = await guide.run('answers.ts', formats, { name: 'm', version: '2.0' });
  expect(results.map((result) => result.ok && [result.status, result.text(), result.headers['x-model']])).toEqual([
    [200, 'score 0.5', 'm/2.0'],
    [200, 'score\n0.5\n', 'm/2.0'],
    [204, '', 'm/2.0'],
    [200, '{"score":0.5}', 'm/2.0'],
  ]);
  expect(results[1]?.ok && results[1].headers['content-type']).toBe('text/csv');
});

it('streaming.ts', async () => {
  const [answer] = await guide.run('streaming.ts', ['a b']);
  expect(answer?.ok && answer.chunks?.map((chunk) => Buffer.from(chunk).toString())).toEqual([
    '{"index":0,"word":"a"}\n',
    '{"index":1,"word":"b"}\n',
  ]);
});

it('two-models.ts', async () => {
  const free = ['batch', 'width'];
  const detection = fakeSession({
    inputs: [{ name: 'values', datatype: 'FP32', shape: free }],
    outputs: [{ name: 'box', datatype: 'FP32', shape: free }],
    run: ({ values }) => ({ box: values! }),
  });
  const session = fakeSession({
    inputs: [{ name: 'crop', datatype: 'FP32', shape: ['batch', 1] }],
    outputs: [{ name: 'width', datatype: 'FP32', shape: ['batch', 1] }],
    run: ({ crop }) => ({ width: crop! }),
  });
  const [wide, none] = await guide.run(
    'two-models.ts',
    [
      [1, 5],
      [5, 1],
    ],
    { session, sessions: { detection } },
  );
  expect(wide?.ok && wide.text()).toBe('[4]');
  expect(none).toMatchObject({ ok: false, status: 422 });
});

it('whole-batch.ts', async () => {
  const [first, empty, last] = await guide.run('whole-batch.ts', ['a', '', 'b']);
  expect(first?.ok && first.json()).toEqual({ text: 'a', mates: 3 });
  expect(empty?.ok).toBe(false);
  expect(last?.ok && last.headers['x-served']).toBe('2');
});

it('measured.ts', async () => {
  const results = await guide.run('measured.ts', ['-1,2', '3,4'], { session: echo('output') });
  expect(results.map((result) => result.ok && result.text())).toEqual(['-1', '3']);
  expect(results.logs.map(({ message }) => message)).toEqual(['negative value']);
  expect(results.metrics.filter(({ kind }) => kind === 'counter').map(({ labels }) => labels)).toEqual([
    { sign: 'negative' },
    { sign: 'positive' },
  ]);
});

it('explained.ts', async () => {
  const options = { session: echo('output', 2) };
  const explain = request({ json: [1, 2], kind: 'explain' });
  const [score, weights] = await guide.run('explained.ts', [[1, 2], explain], options);
  expect(score?.ok && score.json()).toEqual({ score: 1 });
  expect(weights?.ok && weights.json()).toEqual({ weights: [1, 2] });
});

it('sentence.ts', async () => {
  const tokenizerFile = {
    version: '1.0',
    added_tokens: [],
    model: { type: 'WordLevel', vocab: { '[PAD]': 0, '[UNK]': 1, hello: 2, world: 3 }, unk_token: '[UNK]' },
    pre_tokenizer: { type: 'Whitespace' },
  };
  writeFileSync(join(guide.folder, 'tokenizer.json'), JSON.stringify(tokenizerFile));
  const shape = ['batch', 'length'];
  const session = fakeSession({
    inputs: ['input_ids', 'attention_mask'].map((name) => ({ name, datatype: 'INT64' as const, shape })),
    outputs: [{ name: 'sentence_embedding', datatype: 'INT64', shape }],
    run: ({ input_ids }) => ({ sentence_embedding: input_ids! }),
  });
  const [short, long] = await guide.run('sentence.ts', [Buffer.from('hello'), Buffer.from('hello new world')], {
    session,
    directory: guide.folder,
  });
  expect(short?.ok && short.json()).toEqual({ embedding: [2] });
  expect(long?.ok && long.json()).toEqual({ embedding: [2, 1, 3] });
});

it('picture.ts', async () => {
  const session = fakeSession({
    inputs: [{ name: 'image', datatype: 'FP32', shape: ['batch', 3, 8, 8] }],
    outputs: [{ name: 'scores', datatype: 'FP32', shape: ['batch', 3] }],
    run: ({ image }) => ({ scores: new Tensor('FP32', [image!.rows, 3], tensor('FP32', [3], [0, 2, 1]).data) }),
  });
  const picture = readFileSync(join(root, 'packages/examples/digits/samples/7.png'));
  const [answer, broken] = await guide.run('picture.ts', [picture, picture.subarray(0, 60)], { session, batchSize: 1 });
  expect(answer?.ok && answer.json()).toEqual({ best: 1 });
  expect(broken).toMatchObject({ ok: false, status: 400 });
});

it('has run every block', () => {
  expect(guide.notRun()).toEqual(['classifier.ts']);
});
