import { describe, expect, it } from 'vitest';
import { isSelfContained, parseLoadModels } from './load-models.js';

const shown = (texts: string[], onCommandLine = false) => {
  const entries = parseLoadModels(texts, onCommandLine);
  return entries === 'all' ? entries : entries.map(({ name, url }) => (name === undefined ? url : `${name}=${url}`));
};

describe('parseLoadModels', () => {
  it.each<[string, boolean, string | string[]]>([
    ['all', false, 'all'],
    [' ALL ', false, 'all'],
    ['', false, []],
    ['none', false, []],
    ['a.mar,b=b.mar, c.mar', false, ['a.mar', 'b=b.mar', 'c.mar']],
    ['a.mar , , b = b.mar,', false, ['a.mar', 'b=b.mar']],
    ['a.mar b.mar', false, ['a.mar', 'b.mar']],
    ['a.mar b.mar', true, ['a.mar', 'b.mar']],
    ['my-model.mar x=y.tar.gz', true, ['my-model.mar', 'x=y.tar.gz']],
    ['x=folder y=b.mar', true, ['x=folder', 'y=b.mar']],
    ['weird name.mar', true, ['weird name.mar']],
    ['weird name.mar, b.mar', false, ['weird name.mar', 'b.mar']],
    ['one two', true, ['one', 'two']],
    ['one two', false, ['one two']],
    ['https://h/a.mar?sig=x', false, ['https://h/a.mar?sig=x']],
    ['n=https://h/a.mar?sig=x', false, ['n=https://h/a.mar?sig=x']],
  ])('reads %j (command line: %s)', (text, onCommandLine, expected) => expect(shown([text], onCommandLine)).toEqual(expected));

  it('reads several flags', () => expect(shown(['a.mar', 'b=b.mar'], true)).toEqual(['a.mar', 'b=b.mar']));
});

describe('isSelfContained', () => {
  it.each([
    ['a.mar', false],
    ['/models/a.mar', true],
    ['./a.mar', true],
    ['file:///models/a.mar', true],
    ['https://h/a.mar', true],
  ])('%s: %s', (url, expected) => expect(isSelfContained({ name: undefined, url })).toBe(expected));
});
