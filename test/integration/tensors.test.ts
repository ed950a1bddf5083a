import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, messageOf, post } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';

const one = { minWorkers: 1, maxWorkers: 1 };
const types = ['int64', 'int32', 'int8', 'uint8', 'uint64', 'bool', 'string', 'fp64'];

let server: TestServer;
let pids: Record<string, number>;
const predict = (model: string, body: unknown) => post(`${server.inference}/predictions/${model}`, body);
/** JSON as text, since a JavaScript number cannot hold every integer. */
const tensor = (datatype: string, shape: readonly number[], data: string) =>
  post(
    `${server.inference}/predictions/${datatype.toLowerCase()}`,
    `{"inputs":[{"name":"input","datatype":"${datatype}","shape":${JSON.stringify(shape)},"data":${data}}]}`,
    { 'content-type': 'application/json' },
  );
/** Nested lists of the only output. */
const outputOf = (answer: Answer) => Object.values(answer.json as Record<string, unknown>)[0];

async function workerPids(): Promise<Record<string, number>> {
  const entries = [...types, 'any3', 'scalar', 'nonzero'].map(
    async (name) => [name, (await server.describe(name)).workers[0]!.pid] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

/** Files beside a model whose weights are not in it. */
async function externalWeights(folder: string, file: string) {
  return { [file]: await readFile(new URL(`../fixtures/models/${folder}/${file}`, import.meta.url)) };
}

beforeAll(async () => {
  const external = { model: 'external/model.onnx', files: await externalWeights('external', 'weights.bin') };
  const subfolder = {
    model: 'external-subfolder/model.onnx',
    files: await externalWeights('external-subfolder', 'data/weights.bin'),
  };
  server = await startServer({
    models: {
      ...Object.fromEntries(types.map((type) => [type, { model: `identity-${type}.onnx`, config: one }])),
      string: { model: 'identity-string.onnx', config: one },
      any3: { model: 'any-3.onnx', config: one },
      scalar: { model: 'scalar.onnx', config: one },
      nonzero: { model: 'non-zero.onnx', config: one },
      external: { ...external, config: one },
      subfolder: { ...subfolder, config: one },
      two: { model: 'two-outputs.onnx', config: one },
      means: { model: 'channel-mean.onnx', config: { ...one, batchSize: 4, maxBatchDelay: 200 } },
      half: { handler: 'raw-bits', model: 'identity-fp16.onnx', config: one },
      integers: { handler: 'big-integers', model: 'identity-int64.onnx', config: one },
    },
  });
  pids = await workerPids();
});
afterAll(() => server.stop());

describe('INT64 from JSON numbers', () => {
  it.each([
    ['INT64', '[1, 2, 3]'],
    ['INT64', '[-9223372036854775808, 9223372036854775807, 0]'],
    ['UINT64', '[18446744073709551615, 0, 9007199254740993]'],
  ])('%s %s is exact', async (datatype, data) => {
    const answer = await tensor(datatype, [1, 3], data);
    expect(answer.status).toBe(200);
    expect(answer.text.replaceAll(/\s/g, '')).toContain(`"output":[${data.replaceAll(' ', '')}]`);
  });

  it.each([
    ['a fraction', '[1.5]'],
    ['null', '[null]'],
    ['a boolean', '[true]'],
    ['text', '["x"]'],
    ['too large a number', '[9223372036854775808]'],
  ])('%s is refused, naming the element', async (_, data) => {
    const answer = await tensor('INT64', [1, 2], `[7, ${data.slice(1)}`);
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain('input');
    expect(messageOf(answer)).toContain('1');
  });
});

it('INT64 outputs that a handler returns become JSON numbers wherever they stand', async () => {
  const answer = await predict('integers', '9007199254740993,-2');
  expect(answer.status).toBe(200);
  const compact = answer.text.replaceAll(/\s/g, '');
  expect(compact).toContain('9007199254740993,-2');
  expect(compact).toMatch(/"deeper":\["?9007199254740993"?,\{"value":"?9007199254740993"?\}\]/);
  expect(compact).toContain('"9007199254740993":"key"');
});

it('16-bit floats pass bit by bit: largest, subnormal, infinite and NaN', async () => {
  const bits = Uint16Array.of(0x7bff, 0xfbff, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x7e00, 0x8000);
  const response = await fetch(`${server.inference}/predictions/half`, { method: 'POST', body: Buffer.from(bits.buffer) });
  expect(response.status).toBe(200);
  expect(new Uint16Array(await response.arrayBuffer())).toEqual(bits);
});

describe('text', () => {
  const rows = ['', ' ', 'ä', '\u{1F600}'];
  it('keeps empty text, blanks, emoji and the shape', async () => {
    const answer = await post(`${server.inference}/predictions/string`, {
      inputs: [{ name: 'input', datatype: 'BYTES', shape: [2, 2], data: rows }],
    });
    expect(answer.status).toBe(200);
    expect(outputOf(answer)).toEqual([rows.slice(0, 2), rows.slice(2)]);
  });

  it('keeps a megabyte', async () => {
    const long = 'long text '.repeat(100_000);
    const answer = await post(`${server.inference}/predictions/string`, {
      inputs: [{ name: 'input', datatype: 'BYTES', shape: [1, 1], data: [long] }],
    });
    expect((outputOf(answer) as string[][])[0]?.[0] === long).toBe(true);
  });

  it('with a NUL, which the engine would cut, is refused by name', async () => {
    const answer = await post(`${server.inference}/predictions/string`, {
      inputs: [{ name: 'input', datatype: 'BYTES', shape: [1, 2], data: ['a', 'a\u0000b'] }],
    });
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toMatch(/NUL|zero byte|u0000/i);
  });

  it('with half a surrogate pair is replaced or refused, and the worker lives', async () => {
    const body = '{"inputs":[{"name":"input","datatype":"BYTES","shape":[1,1],"data":["\\ud83d"]}]}';
    const answer = await post(`${server.inference}/predictions/string`, body, { 'content-type': 'application/json' });
    if (answer.status === 200) expect(outputOf(answer)).toEqual([['\uFFFD']]);
    else expect(answer.status).toBe(400);
  });
});

describe('tensors without elements and without dimensions', () => {
  const send = (model: string, datatype: string, shape: readonly number[], data: readonly unknown[]) =>
    predict(model, { inputs: [{ name: 'input', datatype, shape, data }] });

  it.each([
    ['any3', 'FP32', [0, 3], []],
    ['int64', 'INT64', [2, 0], [[], []]],
  ])('%s %s %j gives an empty result or 400', async (model, datatype, shape, empty) => {
    const answer = await send(model, datatype, shape, []);
    if (answer.status === 200) expect(outputOf(answer)).toEqual(empty);
    else expect(answer.status).toBe(400);
  });

  it('a scalar comes back as a scalar', async () => {
    const answer = await send('scalar', 'FP32', [], [2.5]);
    expect(answer.status).toBe(200);
    expect(outputOf(answer)).toBe(2.5);
  });

  it('a model that finds nothing answers with nothing', async () => {
    const answer = await send('nonzero', 'FP32', [2, 3], [0, 0, 0, 0, 0, 0]);
    expect(answer.status).toBe(200);
    expect(outputOf(answer)).toEqual([]);
    const found = await send('nonzero', 'FP32', [2, 3], [0, 5, 0, 0, 0, 7]);
    expect(outputOf(found)).toEqual([
      [0, 1],
      [1, 2],
    ]);
  });
});

describe('types', () => {
  it('another type than the model wants is refused in plain words', async () => {
    const answer = await predict('int64', { inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 1], data: [1] }] });
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toMatch(/INT64/);
    expect(messageOf(answer)).toMatch(/FP32/);
  });

  it.each([
    ['UINT8', 256],
    ['UINT8', -1],
    ['INT8', -129],
    ['INT32', 2147483648],
  ])('%s %i is out of range', async (datatype, value) => {
    const answer = await tensor(datatype, [1, 1], `[${value}]`);
    expect(answer.status).toBe(400);
    expect(messageOf(answer)).toContain(datatype);
    expect(messageOf(answer)).toContain(String(value));
  });

  it('BOOL takes true and false', async () => {
    const answer = await tensor('BOOL', [1, 2], '[true, false]');
    expect(outputOf(answer)).toEqual([[true, false]]);
    expect((await tensor('BOOL', [1, 1], '[2]')).status).toBe(400);
  });
});

it.each(['external', 'subfolder'])('weights beside the model are found: %s', async (model) => {
  const answer = await predict(model, { input: [[1, 1, 1, 1]] });
  expect(answer.status).toBe(200);
  expect(answer.json).toEqual({ output: [[24, 28, 32, 36]] });
});

it('every output is answered by its name', async () => {
  const answer = await predict('two', {
    input: [
      [1, 2, 3, 4],
      [0, 0, 0, 1],
    ],
  });
  expect(answer.json).toEqual({
    double: [
      [2, 4, 6, 8],
      [0, 0, 0, 2],
    ],
    rowsum: [[10], [1]],
  });
});

it('images of different sizes meet in a batch, and each gets its own colours', async () => {
  /** One image of a single colour. */
  const image = (colour: readonly number[], height: number, width: number) => ({
    image: [colour.map((value) => Array.from({ length: height }, () => Array.from({ length: width }, () => value)))],
  });
  const sent = [image([1, 0, 0], 4, 6), image([0, 1, 0], 8, 3), image([0, 0, 1], 4, 6), image([0.5, 0.25, 0.75], 1, 1)];
  const answers = await Promise.all(sent.map((body) => predict('means', body)));
  expect(answers.map(({ json }) => (json as { mean: number[][] }).mean[0])).toEqual([
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [0.5, 0.25, 0.75],
  ]);
});

it('none of this has cost a worker its life', async () => {
  expect(await workerPids()).toEqual(pids);
});
