import { expect, it } from 'vitest';
import { placeInSequence } from './sequence-place.js';

const keys = { id: 'seq-id', start: 'seq-start', end: 'seq-end' };
const place = (rawHeaders: string[], sequence?: { id: string; start: boolean; end: boolean }) =>
  placeInSequence({ rawHeaders, ...(sequence && { sequence }) }, keys, () => 'new');

it('takes the id and the marks of the headers, whatever their case', () => {
  const rawHeaders = ['Seq-Id', ' a ', 'SEQ-START', 'true', 'seq-end', '1'];
  expect(place(rawHeaders)).toEqual({ mark: { id: 'a', start: true, end: true }, rawHeaders });
});

it.each(['false', 'False', '0', ''])('a mark of %j is none', (value) => {
  expect(place(['seq-id', 'a', 'seq-start', value]).mark).toEqual({ id: 'a', start: false, end: false });
});

it('begins a sequence for a request without an id, and shows it to the handler', () => {
  expect(place(['x', 'y'])).toEqual({
    mark: { id: 'new', start: true, end: false, made: true },
    rawHeaders: ['x', 'y', 'seq-id', 'new', 'seq-start', 'true'],
  });
  expect(place([]).mark.id).not.toBe('');
});

it('takes what the protocol says before the headers', () => {
  expect(place(['seq-id', 'a'], { id: 'b', start: false, end: true }).mark).toEqual({ id: 'b', start: false, end: true });
});

it('makes an id of its own by default', () => {
  expect(placeInSequence({ rawHeaders: [] }, keys).mark.id).toMatch(/^ts-seq-[0-9a-f-]{36}$/);
});

it('refuses an id that nobody can mean', () => {
  expect(() => place(['seq-id', 'x'.repeat(1025)])).toThrow(/1025 characters; the limit is 1024 \(seq-id\)/);
});
