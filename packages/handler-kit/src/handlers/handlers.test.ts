import { fileURLToPath } from 'node:url';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TensorSignature } from '../context.js';
import { tensor } from '../convert.js';
import { type NamedTensors, Tensor } from '../tensor.js';
import { fakeSession, multipart, realSession, request, runHandler, type TestResult } from '../testing/index.js';
import { bundledHandlerNames, loadBundledHandler } from './index.js';

const json = (result: TestResult | undefined): unknown => {
  if (result?.ok !== true) throw new Error('failed', { cause: result?.error });
  return result.json();
};
const message = (result: TestResult | undefined): string =>
  result?.ok === false ? `${result.status} ${result.error.message}` : 'it did not fail';
const echo = (...inputs: TensorSignature[]) => fakeSession({ inputs, outputs: inputs, run: (feeds) => feeds });

it('knows its handlers', async () => {
  expect(bundledHandlerNames).toEqual(['tensor', 'image_classifier', 'text_embedding']);
  await expect(loadBundledHandler('resnet')).rejects.toThrow('there are tensor, image_classifier');
  await expect(loadBundledHandler('toString')).rejects.toThrow('no bundled handler');
});

describe('tensor', () => {
  const x: TensorSignature = { name: 'x', datatype: 'INT64', shape: ['n', 2] };
  const flag: TensorSignature = { name: 'flag', datatype: 'BOOL', shape: ['n'] };
  const run = async (inputs: TensorSignature[], ...payloads: object[]) =>
    runHandler(await loadBundledHandler('tensor'), payloads, { session: echo(...inputs) });

  it('takes every form of JSON that names tensors', async () => {
    const results = await run(
      [x],
      { inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 2], data: [1, 2] }] },
      { inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 2], data: [[1, 2]] }] },
      { inputs: { x: [[1, 2]] } },
      { inputs: [[1, 2]] },
      { instances: [[1, 2]] },
      { instances: [{ x: [1, 2] }] },
      { x: [[1, 2]] },
      [[1, 2]],
    );
    for (const result of results) expect(json(result)).toEqual({ x: [[1, 2]] });
  });

  it('takes several inputs, and tensors of the protocol', async () => {
    const tensors: NamedTensors = { x: tensor('INT64', [1, 2], [2n ** 62n, 1]), flag: tensor('BOOL', [1], [true]) };
    const results = await run(
      [x, flag],
      { x: [[1, 2]], flag: [1] },
      {
        instances: [
          { x: [1, 2], flag: false },
          { x: [3, 4], flag: true },
        ],
      },
      request({ tensors }),
    );
    expect(json(results[0])).toEqual({ x: [[1, 2]], flag: [true] });
    expect(json(results[1])).toEqual({
      x: [
        [1, 2],
        [3, 4],
      ],
      flag: [false, true],
    });
    expect(results[2]?.ok && results[2].text()).toBe('{"x":[[4611686018427387904,1]],"flag":[true]}');
  });

  it.each<[string, unknown, string]>([
    ['a fraction', { x: [[1, 1.5]] }, 'input "x": element 1 ([0][1]) is 1.5'],
    ['text', { x: [['1', '2']] }, 'is the text "1", INT64 needs a whole number'],
    ['null', { x: [[null, 1]] }, 'is null'],
    ['a boolean', { x: [[true, 1]] }, 'is true'],
    ['a ragged array', { x: [[1, 2], [3]] }, 'values[1] should have 2 values'],
    [
      'another datatype',
      { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] },
      'input "x" expects INT64, got FP32',
    ],
    [
      'an unknown datatype',
      { inputs: [{ name: 'x', datatype: 'INT65', shape: [1, 2], data: [1, 2] }] },
      'unknown datatype "INT65"',
    ],
    ['a shape that is no shape', { inputs: [{ name: 'x', datatype: 'INT64', shape: [-1], data: [1, 2] }] }, 'shape'],
    ['too little data', { inputs: [{ name: 'x', datatype: 'INT64', shape: [2, 2], data: [1, 2] }] }, 'needs 4 elements, got 2'],
    ['an unknown name', { y: [[1, 2]] }, 'no input "y"; its inputs are "x"'],
    ['a missing input', { inputs: {} }, 'input "x" (INT64 [n, 2]) is missing'],
    ['the wrong width', { x: [[1, 2, 3]] }, 'input "x" expects INT64 [n, 2], got INT64 [1, 3]'],
    ['no instances', { instances: [] }, 'empty'],
    ['instances without the input', { instances: [{ z: 1 }] }, 'instance 0 has no "x"'],
    ['a number', 5, 'got number'],
    [
      'the same input twice',
      { inputs: [0, 1].map(() => ({ name: 'x', datatype: 'INT64', shape: [1, 2], data: [1, 2] })) },
      'given twice',
    ],
  ])('refuses %s', async (_, body, why) => {
    const [result] = await runHandler(await loadBundledHandler('tensor'), [request({ json: body })], { session: echo(x) });
    expect(message(result)).toContain(why);
    expect(result?.status).toBe(400);
  });

  it('asks for names where the model has several inputs', async () => {
    const [result] = await run([x, flag], [[1, 2]]);
    expect(message(result)).toContain('name each');
  });

  it('answers empty results and scalars', async () => {
    const model = (name: string): string => fileURLToPath(new URL(`../../../../test/fixtures/models/${name}`, import.meta.url));
    const nonZero = await realSession(model('non-zero.onnx'));
    const [empty] = await runHandler(await loadBundledHandler('tensor'), [{ [nonZero.inputs[0]!.name]: [[0, 0, 0, 0]] }], {
      session: nonZero,
    });
    expect(json(empty)).toEqual({ indices: [] });
    const bytes = echo({ name: 'b', datatype: 'BYTES', shape: [-1] });
    const [texts] = await runHandler(
      await loadBundledHandler('tensor'),
      [request({ tensors: { b: tensor('BYTES', [2], [Buffer.from('é'), Buffer.from([0xff])]) } })],
      {
        session: bytes,
      },
    );
    expect(json(texts)).toEqual({ b: ['é', '/w=='] });
  });
});

describe('with files of an archive', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'archive-'));
    await writeFile(join(directory, 'index_to_name.json'), '{"0": ["n0", "10"], "1": "9", "2": "blue"}');
    const tokenizer = {
      version: '1.0',
      added_tokens: [],
      pre_tokenizer: { type: 'Whitespace' },
      model: { type: 'WordLevel', vocab: { '[UNK]': 0, one: 1, two: 2 }, unk_token: '[UNK]' },
    };
    await writeFile(join(directory, 'tokenizer.json'), JSON.stringify(tokenizer));
  });
  afterAll(async () => {
    await rm(directory, { recursive: true });
  });

  describe('image_classifier', () => {
    /** The logits are the means of the channels. */
    const session = (shape: Array<number | string>, extra: number[] = []) =>
      fakeSession({
        inputs: [{ name: 'pixels', datatype: 'FP32', shape }],
        outputs: [{ name: 'logits', datatype: 'FP32', shape: ['n', 3, ...extra] }],
        run: ({ pixels }) => {
          const [rows = 0, , height = 0, width = 0] = pixels!.shape;
          const size = height * width;
          const means = Float32Array.from({ length: rows * 3 }, (_, at) => {
            const plane = (pixels!.data as Float32Array).subarray(at * size, (at + 1) * size);
            return plane.reduce((sum, value) => sum + value, 0) / size;
          });
          return { logits: new Tensor('FP32', [rows, 3, ...extra], means) };
        },
      });
    const picture = (r: number, g: number, b: number) =>
      sharp({ create: { width: 30, height: 20, channels: 3, background: { r, g, b } } })
        .png()
        .toBuffer();
    const plain = { image: { mean: [0, 0, 0], std: [1, 1, 1] }, activation: 'none' };

    it('ranks with labels in order, whatever they look like', async () => {
      const file = await picture(255, 51, 102);
      const results = await runHandler(
        await loadBundledHandler('image_classifier'),
        [file, multipart([{ name: 'data', data: file, filename: 'x.png' }])],
        {
          session: session(['n', 3, 8, 8], [1, 1]),
          directory,
          config: plain,
        },
      );
      for (const result of results) expect(result.ok && result.text()).toMatch(/^\{"10":1,"blue":0\.4\d*,"9":0\.2\d*\}$/);
    });

    it('applies softmax and the ImageNet normalisation by default', async () => {
      const [result] = await runHandler(await loadBundledHandler('image_classifier'), [await picture(0, 0, 0)], {
        session: session(['n', 3, 'h', 'w']),
        config: { topK: 2 },
      });
      const scores = json(result) as Record<string, number>;
      expect(Object.keys(scores)).toEqual(['2', '1'].sort());
      const logits = [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225].map(Math.exp);
      expect(scores['2']).toBeCloseTo(logits[2]! / (logits[0]! + logits[1]! + logits[2]!), 5);
    });

    it('answers instances as a list', async () => {
      const b64 = (await picture(255, 0, 0)).toString('base64');
      const [list, single, bad] = await runHandler(
        await loadBundledHandler('image_classifier'),
        [
          { instances: [{ b64 }, { image_bytes: { b64 } }] },
          { data: `data:image/png;base64,${b64}` },
          { instances: [{ b64: '!!' }] },
        ],
        { session: session(['n', 3, 8, 8]), directory, config: { ...plain, topK: 1 } },
      );
      expect(json(list)).toEqual({ predictions: [{ 10: 1 }, { 10: 1 }] });
      expect(json(single)).toEqual({ 10: 1 });
      expect(message(bad)).toContain('400 picture 0 is not valid base64');
    });

    it('keeps a broken picture to its own request', async () => {
      const results = await runHandler(await loadBundledHandler('image_classifier'), [await picture(1, 2, 3), 'no picture', ''], {
        session: session(['n', 3, 8, 8]),
        directory,
      });
      expect(results.map((it) => it.status)).toEqual([200, 400, 400]);
    });

    it.each([
      [{ image: { colour: 1 } }, 'unknown key "colour"'],
      [{ image: { mean: [1] } }, 'three numbers'],
      [{ topK: 'five' }, '"topK"'],
      [{ activation: 'tanh' }, 'softmax or sigmoid or none'],
    ])('names what is wrong in %j when it loads', async (config, why) => {
      await expect(
        runHandler(await loadBundledHandler('image_classifier'), [], { session: session(['n', 3, 8, 8]), config }),
      ).rejects.toThrow(why);
    });

    it('refuses a model that takes no pictures', async () => {
      const other = echo({ name: 'x', datatype: 'INT64', shape: ['n', 2] });
      await expect(runHandler(await loadBundledHandler('image_classifier'), [], { session: other })).rejects.toThrow(
        'x INT64 [n, 2]',
      );
    });
  });

  describe('text_embedding', () => {
    /** Each token's vector is (id, 2 * id). */
    const session = fakeSession({
      inputs: [
        { name: 'input_ids', datatype: 'INT64', shape: ['n', 't'] },
        { name: 'attention_mask', datatype: 'INT64', shape: ['n', 't'] },
      ],
      outputs: [{ name: 'hidden', datatype: 'FP32', shape: ['n', 't', 2] }],
      run: ({ input_ids: ids }) => ({
        hidden: new Tensor(
          'FP32',
          [...ids!.shape, 2],
          Float32Array.from([...(ids!.data as BigInt64Array)].flatMap((id) => [Number(id), 2 * Number(id)])),
        ),
      }),
    });

    it('gives the same vectors alone and in a batch', async () => {
      const payloads = ['one', { text: 'one two two' }, ['two', 'one one'], { instances: ['two'] }];
      const options = { session, directory, config: { normalize: false } };
      const together = await runHandler(await loadBundledHandler('text_embedding'), payloads, options);
      const alone = await runHandler(await loadBundledHandler('text_embedding'), payloads, { ...options, batchSize: 1 });
      expect(together.map(json)).toEqual(alone.map(json));
      expect(json(together[0])).toEqual([1, 2]);
      expect((json(together[1]) as number[])[0]).toBeCloseTo(5 / 3, 5);
      expect(json(together[2])).toEqual([
        [2, 4],
        [1, 2],
      ]);
      expect(json(together[3])).toEqual([[2, 4]]);
    });

    it('takes a tensor of texts', async () => {
      const payload = request({ tensors: { t: tensor('BYTES', [2], ['two', Buffer.from('one')]) } });
      const wrong = request({ tensors: { t: tensor('FP32', [1], [1]) } });
      const options = { session, directory, config: { normalize: false } };
      const [both, none] = await runHandler(await loadBundledHandler('text_embedding'), [payload, wrong], options);
      expect(json(both)).toEqual([
        [2, 4],
        [1, 2],
      ]);
      expect(none).toMatchObject({ ok: false, status: 400, error: { message: expect.stringContaining('BYTES tensor') } });
    });

    it('normalises by default, and takes the first token on demand', async () => {
      const [unit] = await runHandler(await loadBundledHandler('text_embedding'), ['two'], { session, directory });
      expect((json(unit) as number[])[0]).toBeCloseTo(1 / Math.sqrt(5), 5);
      const [first] = await runHandler(await loadBundledHandler('text_embedding'), ['two one'], {
        session,
        directory,
        config: { pooling: 'cls', normalize: false },
      });
      expect(json(first)).toEqual([2, 4]);
    });

    it('refuses what is no text', async () => {
      const results = await runHandler(await loadBundledHandler('text_embedding'), [{ text: 5 }, [], ['one', null]], {
        session,
        directory,
      });
      expect(results.map(message)).toEqual([
        '400 text 0 should be text, got number',
        '400 the list of texts is empty',
        '400 text 1 should be text, got object',
      ]);
    });
  });
});
