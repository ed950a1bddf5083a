import { expect, it } from 'vitest';
import { parseExpectations, rangeOf, satisfies } from './provides.js';

it.each([
  ['1.2.3', '^1.2.3', true],
  ['1.9.0', '^1.2.3', true],
  ['1.2.2', '^1.2.3', false],
  ['2.0.0', '^1.2.3', false],
  ['0.35.5', '^0.35.0', true],
  ['0.35.0', '^0.35.5', false],
  ['0.36.0', '^0.35.5', false],
  ['0.0.3', '^0.0.3', true],
  ['0.0.4', '^0.0.3', false],
  ['1.2.3', '1.2.3', true],
  ['1.2.4', '1.2.3', false],
  ['1.3.0-rc.1', '^1.2.0', true],
  ['7.0.0', '*', true],
  ['1.2.3', '>=1.0.0', false],
])('%s satisfies %s: %s', (version, range, expected) => {
  expect(satisfies(version, range)).toBe(expected);
});

it('a version satisfies its own range', () => {
  for (const version of ['0.0.1', '0.1.0', '1.0.0', '12.34.56']) expect(satisfies(version, rangeOf(version))).toBe(true);
});

it('reads what it knows and leaves the rest', () => {
  const text = '{"runtimeProvides": {"sharp": "^0.35.0", "odd": 1}, "handlerKit": "^0.1.0", "later": {}}';
  expect(parseExpectations(text)).toEqual({ runtimeProvides: { sharp: '^0.35.0' }, handlerKit: '^0.1.0' });
  expect(parseExpectations('{}')).toEqual({ runtimeProvides: {}, handlerKit: undefined });
  expect(parseExpectations('no json')).toBeUndefined();
});
