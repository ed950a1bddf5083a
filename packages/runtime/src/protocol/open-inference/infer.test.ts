import { type Datatype, numberToFloat16, tensor } from '@onnxserve/handler-kit';
import { parseJson } from '@onnxserve/handler-kit/internal';
import { describe, expect, it } from 'vitest';
import { readInferRequest } from './infer-request.js';
import { tensorsResponse, valueResponse } from './infer-response.js';

const head = { model: 'm', version: '1.0', id: 'a"b' };
const input = (over: object) => ({ inputs: [{ name: 'x', shape: [2], datatype: 'INT64', data: [1, 2], ...over }] });

describe('a request', () => {
  it.each<[Datatype, string, unknown[]]>([
    ['BOOL', '[true,false]', [1, 0]],
    ['UINT8', '[0,255]', [0, 255]],
    ['UINT16', '[0,65535]', [0, 65_535]],
    ['UINT32', '[0,4294967295]', [0, 4_294_967_295]],
    ['UINT64', '[0,18446744073709551615]', [0n, 18_446_744_073_709_551_615n]],
    ['INT8', '[-128,127]', [-128, 127]],
    ['INT16', '[-32768,32767]', [-32_768, 32_767]],
    ['INT32', '[-2147483648,2147483647]', [-2_147_483_648, 2_147_483_647]],
    ['INT64', '[-9223372036854775808,9007199254740993]', [-9_223_372_036_854_775_808n, 9_007_199_254_740_993n]],
    ['FP16', '[1.5,-2]', [numberToFloat16(1.5), numberToFloat16(-2)]],
    ['BF16', '[1,-2]', [0x3f80, 0xc000]],
    ['FP32', '[1.5,1e10]', [1.5, 1e10]],
    ['FP64', '[0.1,1e300]', [0.1, 1e300]],
    ['BYTES', '["é",""]', ['é', '']],
  ])('of %s goes in and out unchanged', (datatype, data, elements) => {
    const text = `{"inputs":[{"name":"x","shape":[2],"datatype":"${datatype}","data":${data}}]}`;
    const { tensors } = readInferRequest(parseJson(text, true));
    expect([...(tensors['x']!.data as Iterable<unknown>)]).toEqual(elements);
    const answer = tensorsResponse(head, tensors, undefined);
    const written = /"data":(\[.*\])\}\]\}$/.exec(answer)?.[1];
    expect(parseJson(written!, true)).toEqual(parseJson(data, true));
  });

  it('has an id, parameters, nested data and names of outputs', () => {
    const body = {
      id: 'q',
      parameters: { top: 3, exact: true, name: 'n' },
      outputs: [{ name: 'o' }],
      inputs: [{ name: 'x', shape: [2, 1], datatype: 'INT32', data: [[1], [2]] }],
    };
    expect(readInferRequest(body)).toMatchObject({
      id: 'q',
      parameters: { top: 3, exact: true, name: 'n' },
      outputs: ['o'],
      tensors: { x: { shape: [2, 1], data: Int32Array.of(1, 2) } },
    });
    expect(readInferRequest({ ...body, id: ' ', outputs: [] })).toMatchObject({ id: undefined, outputs: undefined });
  });

  it('cannot reach into objects by its names', () => {
    const { tensors } = readInferRequest(input({ name: '__proto__' }));
    expect(Object.keys(tensors)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(tensors)).toBe(Object.prototype);
  });

  it.each<[unknown, string]>([
    [[], 'got an array'],
    [{}, '"inputs" should be an array of tensors'],
    [{ inputs: [] }, '"inputs" is empty'],
    [{ inputs: [1] }, 'inputs[0] should be an object, got number'],
    [input({ name: '' }), 'inputs[0] has no "name"'],
    [{ inputs: [...input({}).inputs, ...input({}).inputs] }, 'input "x" is given twice'],
    [input({ datatype: undefined }), 'input "x" has no "datatype"'],
    [input({ datatype: 'FP8' }), 'unknown datatype "FP8"'],
    [input({ shape: undefined }), 'needs a "shape"'],
    [input({ shape: [-1] }), 'needs a "shape" that is a list of whole numbers, got [-1]'],
    [input({ shape: [3] }), 'input "x": tensor of shape [3] needs 3 elements, got 2'],
    [input({ shape: [2, 2], data: [[1, 2], [3]] }), 'input "x": values[1] should have 2 values'],
    [input({ data: undefined }), 'has no "data"'],
    [input({ data: 5 }), 'needs an array of values'],
    [input({ data: [1, 1.5] }), 'element 1 is 1.5, INT64 needs a whole number'],
    [input({ datatype: 'UINT8', data: [1, 256] }), 'element 1 is 256, UINT8 needs 0 to 255'],
    [{ ...input({}), id: 5 }, '"id" should be text, got number'],
    [{ ...input({}), parameters: [] }, '"parameters" should be an object, got an array'],
    [{ ...input({}), parameters: { a: {} } }, 'parameter "a"'],
    [{ ...input({}), outputs: 'o' }, '"outputs" should be an array'],
    [{ ...input({}), outputs: [{}] }, 'outputs[0] has no "name"'],
  ])('%j is a 400 that says what is wrong', (body, words) => {
    expect(() => readInferRequest(body)).toThrow(
      expect.objectContaining({ status: 400, message: expect.stringContaining(words) }),
    );
  });
});

describe('an answer', () => {
  const two = { a: tensor('FP32', [2], [Number.NaN, Infinity]), b: tensor('INT64', [1, 1], [9_007_199_254_740_993n]) };

  it('has what was asked for in that order, and no bare words', () => {
    expect(tensorsResponse(head, two, ['b', 'a'])).toBe(
      '{"id":"a\\"b","model_name":"m","model_version":"1.0","outputs":[' +
        '{"name":"b","datatype":"INT64","shape":[1,1],"data":[9007199254740993]},' +
        '{"name":"a","datatype":"FP32","shape":[2],"data":[null,null]}]}',
    );
    expect(() => tensorsResponse(head, two, ['toString'])).toThrow(
      'the model has no output "toString"; its outputs are "a", "b"',
    );
  });

  it('has bytes that are no text in base64', () => {
    const tensors = { a: tensor('BYTES', [2], [Uint8Array.of(255, 0), Buffer.from('é')]) };
    expect(JSON.parse(tensorsResponse(head, tensors, undefined))).toMatchObject({ outputs: [{ data: ['/wA=', 'é'] }] });
  });

  it.each<[unknown, string, number[], unknown[]]>([
    [[1, 2], 'INT64', [2], [1, 2]],
    [[[1.5, 2]], 'FP64', [1, 2], [1.5, 2]],
    [[true], 'BOOL', [1], [true]],
    [['a', 'b'], 'BYTES', [2], ['a', 'b']],
    ['text', 'BYTES', [1], ['text']],
    [7, 'INT64', [1], [7]],
    [{ label: 'cat' }, 'BYTES', [1], ['{"label":"cat"}']],
    [[{ label: 'cat' }], 'BYTES', [1], ['[{"label":"cat"}]']],
    [[[1], [2, 3]], 'BYTES', [1], ['[[1],[2,3]]']],
    [[1, 'a'], 'BYTES', [1], ['[1,"a"]']],
    [[], 'BYTES', [1], ['[]']],
    [null, 'BYTES', [1], ['null']],
  ])('for the plain result %j is a tensor', (value, datatype, shape, data) => {
    const answer: unknown = JSON.parse(valueResponse({ ...head, id: undefined }, value, 'x'));
    expect(answer).toEqual({ model_name: 'm', model_version: '1.0', outputs: [{ name: 'x', datatype, shape, data }] });
  });

  it('that a handler made itself gets what it lacks', () => {
    const own = { model_version: '7', outputs: [{ name: 'o', datatype: 'INT64', shape: [1], data: [9_007_199_254_740_993n] }] };
    expect(valueResponse(head, own, 'x')).toBe(
      '{"model_name":"m","model_version":"7","id":"a\\"b","outputs":[{"name":"o","datatype":"INT64","shape":[1],"data":[9007199254740993]}]}',
    );
  });
});
