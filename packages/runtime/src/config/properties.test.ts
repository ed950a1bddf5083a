import { describe, expect, it } from 'vitest';
import { decodeProperties, parseProperties } from './properties.js';

function values(text: string): Record<string, string> {
  return Object.fromEntries([...parseProperties(text).properties].map(([key, { value }]) => [key, value]));
}

describe('parseProperties', () => {
  it.each<[string, string, Record<string, string>]>([
    ['separators', 'a=1\nb: 2\nc 3\nd\t=\t4\ne = = 5\nf\n', { a: '1', b: '2', c: '3', d: '4', e: '= 5', f: '' }],
    ['comments', '# a=1\n  ! b=2\nc=3 # not a comment\n', { c: '3 # not a comment' }],
    ['continuation drops the blanks of the next line', 'models={\\\n   "a": 1\\\n\t}\n', { models: '{"a": 1}' }],
    ['a comment sign in a continuation is text', 'a=1\\\n#2\n', { a: '1#2' }],
    ['an even number of backslashes does not continue', 'a=1\\\\\nb=2\n', { a: '1\\', b: '2' }],
    ['escapes', 'a\\:b=\\u00e9\\t\\n\nc=C:\\\\models\nd=\\q\n', { 'a:b': 'é\t\n', c: 'C:\\models', d: 'q' }],
    ['trailing blanks belong to the value', 'a=1  \n', { a: '1  ' }],
    ['CRLF', 'a=1\r\nb=2\\\r\n  3\r\n', { a: '1', b: '23' }],
    ['a bare CR ends a line', 'a=1\rb=2\\\r 3', { a: '1', b: '23' }],
    ['a byte order mark', '\uFEFFa=1\n', { a: '1' }],
    ['no newline at the end', 'a=1\nb=2', { a: '1', b: '2' }],
    ['a continuation at the end', 'a=1\\', { a: '1' }],
    ['hostile key names', '__proto__=1\n', Object.fromEntries([['__proto__', '1']])],
  ])('reads %s as Java does', (_, text, expected) => expect(values(text)).toEqual(expected));

  it('knows the line of each key', () => {
    const text = '# comment\r\n\r\nfirst=1\\\r\n  2\r\n   second=3\r\n';
    const lines = [...parseProperties(text).properties.values()].map(({ key, line }) => [key, line]);
    expect(lines).toEqual([
      ['first', 3],
      ['second', 5],
    ]);
  });

  it('takes the last of equal keys and says so', () => {
    const { properties, issues } = parseProperties('a=1\nb=2\na=3\n');
    expect(properties.get('a')).toMatchObject({ value: '3', line: 3 });
    expect(issues).toEqual([{ severity: 'warning', key: 'a', line: 3, message: 'a is set twice; line 3 replaces line 1' }]);
  });

  it('does not continue after a backslash with a blank, and says so', () => {
    const { properties, issues } = parseProperties('models={\\ \n"a":1\n');
    expect(properties.get('models')?.value).toBe('{ ');
    expect(issues).toMatchObject([{ severity: 'warning', key: 'models', line: 1 }]);
    expect(parseProperties('a=x\\\\ \n').issues).toEqual([]);
  });

  it('refuses a broken unicode escape', () => {
    expect(parseProperties('a=1\nb=\\u00g1\n').issues).toMatchObject([{ severity: 'error', key: 'b', line: 2 }]);
    expect(parseProperties('b=\\\\u00g1\n').issues).toEqual([]);
  });
});

describe('decodeProperties', () => {
  it('reads UTF-8, and Latin-1 when it is no UTF-8', () => {
    expect(decodeProperties(Buffer.from('a=é', 'utf8'))).toBe('a=é');
    expect(decodeProperties(Buffer.from('a=é', 'latin1'))).toBe('a=é');
  });
});
