import { expect, it } from 'vitest';
import { planStep, type StepView } from './step-policy.js';

const view = (name: string, flags: Partial<StepView> = {}) => ({ name, gone: false, held: false, ...flags });
const names = (views: ReadonlyArray<{ readonly name: string }>) => views.map(({ name }) => name).join('');

it('fills places that are free, the first that is ready first', () => {
  const plan = planStep([view('a')], [view('b'), view('c'), view('d')], 3);
  expect([names(plan.running), plan.join, names(plan.step)]).toEqual(['abc', 2, 'abc']);
});

it('frees the places of those that nobody waits for in the same step', () => {
  const plan = planStep([view('a', { gone: true }), view('b')], [view('c')], 2);
  expect([names(plan.leave), names(plan.running), names(plan.step)]).toEqual(['a', 'bc', 'bc']);
});

it('lets one whose client is slow pause in its place', () => {
  const plan = planStep([view('a', { held: true }), view('b')], [view('c')], 2);
  expect([names(plan.running), plan.join, names(plan.step)]).toEqual(['ab', 0, 'b']);
});

it('does not step one that has left before it joined', () => {
  const plan = planStep([], [view('a', { gone: true }), view('b')], 2);
  expect([names(plan.running), names(plan.step)]).toEqual(['ab', 'b']);
});

it('has nothing to do without anybody', () => {
  expect(planStep([], [], 4)).toEqual({ leave: [], join: 0, running: [], step: [] });
});
