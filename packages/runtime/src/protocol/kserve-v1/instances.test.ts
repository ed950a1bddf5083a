import { describe, expect, it } from 'vitest';
import { instancesOf, maxInstances, predictionsText } from './instances.js';

describe('instances', () => {
  it('are those of "instances", or of "inputs" where that is a name for them', () => {
    expect(instancesOf({ instances: [1, null, { a: 2 }], inputs: [9] }, true)).toEqual([1, null, { a: 2 }]);
    expect(instancesOf({ inputs: ['a'] }, true)).toEqual(['a']);
    expect(() => instancesOf({ inputs: ['a'] }, false)).toThrow('{"instances": [...]}, got an object of "inputs"');
  });

  it.each([
    [[1], 'got an array'],
    [null, 'got null'],
    ['x', 'got string'],
    [{}, 'got an empty object'],
    [{ instances: 3 }, '"instances" should be an array, got number'],
    [{ instances: [] }, '"instances" is empty'],
  ])('%j is a 400 that says what is wrong', (body, words) => {
    expect(() => instancesOf(body, true)).toThrow(
      expect.objectContaining({ status: 400, message: expect.stringContaining(words) }),
    );
  });

  it('too many are a 413 with the number and the limit', () => {
    const message = expect.stringMatching(new RegExp(`${maxInstances + 1} .*${maxInstances};`));
    expect(() => instancesOf({ instances: Array.from({ length: maxInstances + 1 }, () => 0) }, true)).toThrow(
      expect.objectContaining({ status: 413, message }),
    );
  });

  it('are answered in order, text by text', () => {
    expect(predictionsText('explanations', ['1', '{"a":9007199254740993}'])).toBe('{"explanations":[1,{"a":9007199254740993}]}');
  });
});
