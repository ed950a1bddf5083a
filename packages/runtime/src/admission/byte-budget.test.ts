import { expect, it } from 'vitest';
import { ByteBudget } from './byte-budget.js';

it('gives what there is, to the last byte, and takes it back', () => {
  const budget = new ByteBudget(10);
  expect(budget.take(6)).toBe(true);
  expect(budget.take(5)).toBe(false);
  expect(budget.used).toBe(6);
  expect(budget.take(4)).toBe(true);
  expect(budget.take(1)).toBe(false);
  budget.give(6);
  expect(budget.take(6)).toBe(true);
  expect(budget.used).toBe(10);
});
