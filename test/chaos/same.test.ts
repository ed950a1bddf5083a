import { expect, it } from 'vitest';
import { parsed, same } from './same.js';

it('takes answers for equal that differ by rounding alone', () => {
  expect(same(parsed('[{"label":"7","p":0.99412}]'), parsed('[{"label":"7","p":0.99411}]'))).toBe(true);
});

it.each([
  ['another label', '[{"label":"7"}]', '[{"label":"9"}]'],
  ['another number', '[0.5]', '[0.51]'],
  ['fewer items', '[1,2]', '[1]'],
  ['another key', '{"a":1}', '{"b":1}'],
  ['a null', 'null', '{}'],
  ['text that is no JSON', 'gone', 'there'],
])('not %s', (_, one, other) => {
  expect(same(parsed(one), parsed(other))).toBe(false);
});
