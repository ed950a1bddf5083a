import { describe, expect, it } from 'vitest';
import { checkModelName, checkModelVersion } from './model-name.js';

describe('names', () => {
  it.each(['a b', 'café', 'a:b', 'a.b', '日本', 'x'.repeat(255), '50%', 'a?b#c', '-'])('%s is legal', (name) => {
    expect(() => checkModelName(name)).not.toThrow();
  });

  it.each([
    ['', 'empty'],
    ['a/b', 'slash'],
    ['a\\b', 'slash'],
    ['..', '".."'],
    ['../../etc', 'slash'],
    ['a..b', '".."'],
    ['.', '".."'],
    ['a\0b', 'control'],
    ['a\nb', 'control'],
    ['a\u0085b', 'control'],
    ['x'.repeat(256), '256 bytes long; the limit is 255'],
    ['é'.repeat(128), '256 bytes'],
    ['\ud800', 'Unicode'],
  ])('%j is refused by its rule', (name, rule) => {
    expect(() => checkModelName(name)).toThrow(
      expect.objectContaining({ code: 'BAD_REQUEST', message: expect.stringContaining(rule) }),
    );
  });

  it('versions follow the same rules', () => {
    expect(() => checkModelVersion('2024-03-20-18:11')).not.toThrow();
    expect(() => checkModelVersion('1/2')).toThrow(/model version/);
  });
});
