import { beforeEach, describe, expect, it } from 'vitest';
import { ServeError } from '../domain/errors.js';
import { VersionTable } from './store.js';

let table: VersionTable<string>;
beforeEach(() => {
  table = new VersionTable();
});

function code(run: () => unknown): string | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return error instanceof ServeError ? error.code : String(error);
  }
}

describe('default version', () => {
  it('is the first one until changed', () => {
    table.add('m', '2.0', 'two');
    table.add('m', '1.0', 'one');
    expect(table.get('m')).toBe('two');
    table.setDefault('m', '1.0');
    expect(table.get('m')).toBe('one');
    expect(table.versions('m')).toEqual([
      { version: '2.0', entry: 'two', isDefault: false },
      { version: '1.0', entry: 'one', isDefault: true },
    ]);
  });

  it('cannot go while there are others, and may go last', () => {
    table.add('m', '1.0', 'one');
    table.add('m', '2.0', 'two');
    expect(code(() => table.remove('m'))).toBe('INVALID_MODEL_VERSION');
    expect(code(() => table.remove('m', '1.0'))).toBe('INVALID_MODEL_VERSION');
    expect(table.remove('m', '2.0')).toBe('two');
    expect(table.remove('m')).toBe('one');
    expect(table.names()).toEqual([]);
    expect(code(() => table.get('m'))).toBe('MODEL_NOT_FOUND');
  });

  it('a model that comes back starts anew', () => {
    table.add('m', '1.0', 'one');
    table.remove('m');
    table.add('m', '2.0', 'two');
    expect(table.defaultVersion('m')).toBe('2.0');
  });
});

describe('looking up', () => {
  it('what is not there', () => {
    table.add('m', '1.0', 'one');
    expect(code(() => table.get('x'))).toBe('MODEL_NOT_FOUND');
    expect(code(() => table.get('m', '9.9'))).toBe('MODEL_VERSION_NOT_FOUND');
    expect(code(() => table.setDefault('m', '9.9'))).toBe('MODEL_VERSION_NOT_FOUND');
    expect(code(() => table.remove('m', '9.9'))).toBe('MODEL_VERSION_NOT_FOUND');
    expect(table.find('x')).toBeUndefined();
    expect(table.find('m', '9.9')).toBeUndefined();
    expect(() => table.get('m', '9.9')).toThrow(/there are: 1\.0/);
  });

  it('an integer finds N.0, and itself first', () => {
    table.add('m', '1.0', 'one');
    expect(table.get('m', '1')).toBe('one');
    expect(table.versionOf('m', '1')).toBe('1.0');
    table.add('m', '1', 'bare');
    expect(table.get('m', '1')).toBe('bare');
    expect(table.get('m', '1.0')).toBe('one');
    table.setDefault('m', '1');
    expect(table.defaultVersion('m')).toBe('1');
  });

  it('versions and names may be any text', () => {
    table.add('a b', '2024-03-20-18:11', 'dated');
    table.add('__proto__', 'constructor', 'odd');
    expect(table.get('a b', '2024-03-20-18:11')).toBe('dated');
    expect(table.get('__proto__', 'constructor')).toBe('odd');
  });

  it('the same version twice is a conflict', () => {
    table.add('m', '1.0', 'one');
    expect(code(() => table.add('m', '1.0', 'again'))).toBe('CONFLICT');
    expect(table.get('m')).toBe('one');
  });

  it('names are sorted by code unit', () => {
    for (const name of ['b', 'a', 'Z', 'é']) table.add(name, '1.0', name);
    expect(table.names()).toEqual(['Z', 'a', 'b', 'é']);
    expect(table.entries()).toHaveLength(4);
  });
});
