import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { defineHandler, PredictionError, respond, tensor, Tensor, zeros } from '../index.js';
import { fakeSession, multipart, realSession, request, runHandler, type TestAnswer, type TestResult } from './index.js';

/** Doubles `x`, and remembers the shapes that it was run with. */
function doubler() {
  const shapes: number[][] = [];
  const session = fakeSession({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['n', 'width'] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['n', 'width'] }],
    run: ({ x }) => {
      const { shape, data } = x as Tensor<'FP32'>;
      shapes.push([...shape]);
      if (data.some((value) => value < 0)) throw new PredictionError('negative', 422);
      return {
        y: new Tensor(
          'FP32',
          shape,
          data.map((value) => value * 2),
        ),
      };
    },
  });
  return { session, shapes };
}

const numbers = defineHandler({
  load: (ctx) => ({ unit: ctx.model.config['unit'] ?? '' }),
  preprocess(request) {
    const rows = request.json() as number[][];
    return { x: tensor('FP32', [rows.length, rows[0]!.length], rows) };
  },
  postprocess: (outputs, ctx) => ({ y: [...(outputs['y']!.data as Float32Array)], unit: ctx.state.unit }),
});

const answer = (result: TestResult | undefined): TestAnswer => {
  if (result?.ok !== true) throw new Error('failed', { cause: result?.error });
  return result;
};

describe('stages', () => {
  it('groups by shape, and gives each request its own rows', async () => {
    const { session, shapes } = doubler();
    const results = await runHandler(
      numbers,
      [
        [[1, 2]],
        [
          [3, 4],
          [5, 6],
        ],
        [[7, 8, 9]],
      ],
      { session, config: { unit: 'm' } },
    );
    expect(results.map((it) => answer(it).json())).toEqual([
      { y: [2, 4], unit: 'm' },
      { y: [6, 8, 10, 12], unit: 'm' },
      { y: [14, 16, 18], unit: 'm' },
    ]);
    expect(shapes).toEqual([
      [3, 2],
      [1, 3],
    ]);
  });

  it('forms batches of the size asked for', async () => {
    const { session, shapes } = doubler();
    await runHandler(numbers, [[[1]], [[2]], [[3]]], { session, batchSize: 2 });
    expect(shapes).toEqual([
      [2, 1],
      [1, 1],
    ]);
  });

  it('lets a bad request fail alone, at any stage', async () => {
    const { session } = doubler();
    const results = await runHandler(numbers, [[[1]], 'no json', [[-1]], [['x']], [[2]]], { session });
    expect(results.map((it) => (it.ok ? it.json<{ y: number[] }>().y : it.status))).toEqual([[2], 400, 422, 400, [4]]);
  });

  it('speaks tensors where a stage is left out', async () => {
    const { session } = doubler();
    const results = await runHandler(
      defineHandler({}),
      [{ x: [[1, 2]] }, request({ tensors: { x: zeros('FP32', [2, 1]) } }), { z: [1] }],
      { session },
    );
    expect(answer(results[0]).json()).toEqual({ y: [[2, 4]] });
    expect(answer(results[1]).json()).toEqual({ y: [[0], [0]] });
    expect(results[2]).toMatchObject({ ok: false, status: 400, error: { message: expect.stringContaining('"z"') } });
  });

  it('checks feeds as the server does', async () => {
    const { session } = doubler();
    const wrong = defineHandler({ preprocess: () => ({ x: zeros('INT64', [1, 1]) }) });
    const [result] = await runHandler(wrong, ['x'], { session });
    expect(result).toMatchObject({ status: 400, error: { message: 'input "x" expects FP32 [n, width], got INT64 [1, 1]' } });
  });

  it('says what preprocess must return', async () => {
    const { session } = doubler();
    const [result] = await runHandler({ preprocess: () => 'text' }, ['x'], { session });
    expect(result).toMatchObject({ status: 500, error: { message: expect.stringContaining('"x"') } });
  });

  it('refuses explanations without an explain stage', async () => {
    const explain = request({ body: 'x', kind: 'explain' });
    const [refused] = await runHandler(defineHandler({ inference: (batch) => [...batch] }), [explain]);
    expect(refused).toMatchObject({ status: 501 });
    const [explained] = await runHandler(
      defineHandler({
        preprocess: (it) => it.text(),
        inference: (batch) => batch.map((text) => text.length),
        explain: (length) => ({ length }),
      }),
      [explain],
    );
    expect(answer(explained).json()).toEqual({ length: 1 });
  });

  it('runs load and unload', async () => {
    const seen: string[] = [];
    const handler = defineHandler({
      load: async () => 'state',
      preprocess: (it) => it.text(),
      inference: (batch, ctx) => batch.map((text) => text + ctx.state),
      unload: (state) => void seen.push(state),
    });
    const results = await runHandler(handler, ['a ']);
    expect(answer(results[0]).text()).toBe('a state');
    expect(seen).toEqual(['state']);
  });
});

describe('inference of the handler', () => {
  const lengths = defineHandler({
    preprocess: (it) => it.text(),
    inference(batch) {
      if (batch.includes('bomb')) throw new PredictionError('boom', 422);
      return batch.map((text) => (text === 'bad' ? new PredictionError('bad text', 418) : text.length));
    },
    postprocess: (length) => length,
  });

  it('keeps errors to the request that caused them', async () => {
    const results = await runHandler(lengths, ['a', 'bad', 'bomb', 'abc']);
    expect(results.map((it) => (it.ok ? it.json() : it.status))).toEqual([1, 418, 422, 3]);
  });

  it.each([
    ['too few', [1], 'expected 2, got 1'],
    ['too many', [1, 2, 3], 'expected 2, got 3'],
    ['no array', undefined, 'undefined instead of an array'],
  ])('says that it returned %s', async (_, returned, why) => {
    const results = await runHandler({ inference: () => returned as never }, ['a', 'b']);
    expect(results.map((it) => (it.ok ? '' : it.error.message))).toEqual([
      expect.stringContaining(why),
      expect.stringContaining(why),
    ]);
  });
});

describe('whole batches', () => {
  it('gives each request its result, or its error', async () => {
    const handler = defineHandler({
      handle: (batch) =>
        batch.map(({ request, ctx }, index) => {
          if (request.text() === 'bad') return new PredictionError('bad', 400);
          ctx.response.status(200 + index);
          return `${request.text()} of ${batch.length}`;
        }),
    });
    const results = await runHandler(handler, ['a', 'bad', 'c']);
    expect(results.map((it) => (it.ok ? [it.status, it.text()] : it.status))).toEqual([[200, 'a of 3'], 400, [202, 'c of 3']]);
  });

  it('fails all when handle throws or counts wrong', async () => {
    const wrong = await runHandler(defineHandler({ handle: () => [1] }), ['a', 'b']);
    expect(wrong.map((it) => it.status)).toEqual([500, 500]);
    const thrown = await runHandler(defineHandler({ handle: () => Promise.reject(new Error('no')) }), ['a']);
    expect(thrown).toMatchObject([{ ok: false, status: 500, error: { message: 'no' } }]);
  });
});

describe('payloads and answers', () => {
  const echo = defineHandler({
    inference: (batch) =>
      batch.map((it) => ({ type: it.contentType, text: it.text(), parts: it.parts().map((part) => part.name) })),
  });

  it('sends bytes, text, JSON, parts and headers', async () => {
    const results = await runHandler(echo, [
      'text',
      Buffer.from('bytes'),
      { a: 1n },
      multipart([
        { name: 'a', data: '--handler-kit-boundary' },
        { name: 'data', data: Buffer.from('main'), filename: 'f"1.txt', contentType: 'text/plain' },
      ]),
      request({ body: 'x', headers: { 'Content-Type': 'text/css' } }),
    ]);
    expect(results.map((it) => answer(it).json())).toEqual([
      { text: 'text', parts: ['body'] },
      { text: 'bytes', parts: ['body'] },
      { type: 'application/json', text: '{"a":1}', parts: ['body'] },
      { type: 'multipart/form-data', text: 'main', parts: ['a', 'data'] },
      { type: 'text/css', text: 'x', parts: ['body'] },
    ]);
  });

  it('collects streams, logs and metrics', async () => {
    const results = await runHandler(
      defineHandler({
        inference(batch, ctx) {
          ctx.log.info('run', { size: batch.length });
          ctx.metrics.counter('seen', 2, { a: 'b' });
          return batch.map(() =>
            respond(
              (async function* () {
                yield 'a';
                yield 'b';
              })(),
              { status: 206 },
            ),
          );
        },
      }),
      ['x'],
    );
    const streamed = answer(results[0]);
    expect(streamed.status).toBe(206);
    expect(streamed.chunks?.map((chunk) => Buffer.from(chunk).toString())).toEqual(['a', 'b']);
    expect(results.logs).toEqual([{ level: 'info', message: 'run', fields: { size: 1 } }]);
    expect(results.metrics).toEqual([{ kind: 'counter', name: 'seen', value: 2, unit: undefined, labels: { a: 'b' } }]);
  });

  it('reports what cannot be sent as an error of the handler', async () => {
    const results = await runHandler(defineHandler({ inference: (batch) => batch.map(() => undefined) }), ['x']);
    expect(results).toMatchObject([{ ok: false, status: 500, error: { message: expect.stringContaining('returned nothing') } }]);
  });

  it('keeps the model folder to itself', async () => {
    const handler = defineHandler({ load: (ctx) => ctx.model.text('../secret') });
    await expect(runHandler(handler, [], { directory: fileURLToPath(new URL('.', import.meta.url)) })).rejects.toThrow('outside');
  });
});

describe('real sessions', () => {
  const model = (name: string): string => fileURLToPath(new URL(`../../../../test/fixtures/models/${name}`, import.meta.url));

  it('runs a model and splits its outputs', async () => {
    const session = await realSession(model('identity-fp32.onnx'));
    const name = session.inputs[0]!.name;
    const results = await runHandler(
      defineHandler({}),
      [
        { [name]: [[1, 2, 3, 4]] },
        {
          [name]: [
            [5, 6, 7, 8],
            [9, 10, 11, 12],
          ],
        },
      ],
      { session },
    );
    expect(results.map((it) => Object.values(answer(it).json<object>())[0])).toEqual([
      [[1, 2, 3, 4]],
      [
        [5, 6, 7, 8],
        [9, 10, 11, 12],
      ],
    ]);
  });

  it.each([
    ['identity-int64.onnx', tensor('INT64', [1, 4], [1, -2, 2n ** 62n, 0])],
    ['identity-fp16.onnx', tensor('FP16', [1, 4], [65504, 2 ** -24, -0, Infinity])],
    ['identity-bool.onnx', tensor('BOOL', [1, 4], [true, false, 1, 0])],
    ['identity-uint8.onnx', tensor('UINT8', [1, 4], [0, 1, 254, 255])],
    ['identity-string.onnx', tensor('BYTES', [1, 4], ['', ' ', 'é', '😀'])],
  ])('keeps the values of %s', async (file, values) => {
    const session = await realSession(model(file));
    const outputs = await session.run({ [session.inputs[0]!.name]: values });
    expect(outputs[session.outputs[0]!.name]).toEqual(values);
  });

  it('takes a tensor without rows', async () => {
    const values = zeros('FP32', [0, 4]);
    const session = await realSession(model('identity-fp32.onnx'));
    expect(Object.values(await session.run({ [session.inputs[0]!.name]: values }))).toEqual([values]);
  });

  it('takes a scalar, and tells it from a list of one', async () => {
    const session = await realSession(model('scalar.onnx'));
    const { name } = session.inputs[0]!;
    const outputs = await session.run({ [name]: tensor('FP32', [], 1.5) });
    expect(Object.values(outputs)[0]!.shape).toEqual([]);
    await expect(session.run({ [name]: tensor('FP32', [1], [1.5]) })).rejects.toMatchObject({ status: 400 });
  });

  it('refuses text that the engine would cut', async () => {
    const session = await realSession(model('identity-string.onnx'));
    await expect(session.run({ [session.inputs[0]!.name]: tensor('BYTES', [1, 1], ['a\0b']) })).rejects.toMatchObject({
      status: 400,
    });
  });

  it('names the file that is no model', async () => {
    await expect(realSession(model('make_models.py'))).rejects.toThrow();
    await expect(realSession(Buffer.from('nonsense'))).rejects.toThrow();
  });
});
