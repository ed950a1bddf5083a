import { describe, expect, it } from 'vitest';
import { queryPairs, segmentsOf, splitUrl } from './path.js';

describe('splitUrl', () => {
  it.each([
    ['/a/b?c=d?e', '/a/b', 'c=d?e'],
    ['/a', '/a', ''],
    ['http://host:1/a?b', '/a', 'b'],
    ['HTTPS://host', '/', ''],
    ['?a', '/', 'a'],
    ['*', '*', ''],
  ])('%s', (url, path, search) => {
    expect(splitUrl(url)).toEqual({ path, search });
  });
});

describe('segmentsOf', () => {
  it('decodes each segment on its own', () => {
    expect(segmentsOf('/models/a%2Fb/caf%C3%A9/')).toEqual(['models', 'a/b', 'café', '']);
  });

  it.each(['/%zz', '/kit%', '/%C3'])('refuses %s', (path) => {
    expect(() => segmentsOf(path)).toThrow(expect.objectContaining({ code: 'INVALID_PATH' }));
  });
});

describe('queryPairs', () => {
  it('keeps order and repetition, and does not mind malformed escapes', () => {
    expect(queryPairs('a=1&a=2&b+c=d%20e&x=%zz&flag')).toEqual([
      ['a', '1'],
      ['a', '2'],
      ['b c', 'd e'],
      ['x', '%zz'],
      ['flag', ''],
    ]);
  });
});
