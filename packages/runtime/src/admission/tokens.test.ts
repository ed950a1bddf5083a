import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Scope } from '../domain/authorization.js';
import { readSecret, writeKeyFile } from './key-file.js';
import { type KeySet, Tokens, type TokensOptions } from './tokens.js';

function make(options: Partial<TokensOptions> = {}) {
  let time = 1000;
  const stored: KeySet[] = [];
  const tokens = new Tokens({
    required: new Set<Scope>(['inference', 'management']),
    fixed: {},
    lifetime: 60_000,
    store: (keys) => void stored.push(keys),
    now: () => time,
    ...options,
  });
  tokens.publish();
  const key = (kind: 'inference' | 'management' | 'API') => stored.at(-1)![kind].key;
  const ok = (scope: Scope, token: string) => tokens.check(scope, `Bearer ${token}`) === undefined;
  return { tokens, stored, key, ok, pass: (ms: number) => void (time += ms) };
}

describe('tokens', () => {
  it('let in who has the key of the API, and nobody else', () => {
    const { tokens, key, ok } = make();
    expect(ok('inference', key('inference'))).toBe(true);
    expect(ok('management', key('management'))).toBe(true);
    for (const wrong of [key('management'), key('API'), '', 'x', `${key('inference')}x`])
      expect(ok('inference', wrong)).toBe(false);
    for (const header of [
      undefined,
      key('inference'),
      `bearer ${key('inference')}`,
      `Basic ${key('inference')}`,
      `Bearer ${key('inference')} x`,
    ])
      expect(tokens.check('inference', header)).toMatchObject({ code: 'UNAUTHORIZED' });
    expect(tokens.check('inference', `Bearer   ${key('inference')}`)).toBeUndefined();
  });

  it('never say a key', () => {
    const { tokens, key } = make();
    const { message } = tokens.check('inference', `Bearer ${key('management')}`)!;
    for (const kind of ['inference', 'management', 'API'] as const) expect(message).not.toContain(key(kind));
  });

  it('are asked for only where they are required', () => {
    const { tokens } = make({ required: new Set<Scope>(['management']) });
    expect(tokens.check('inference', undefined)).toBeUndefined();
    expect(tokens.check('management', undefined)).toBeDefined();
  });

  it('expire, and are renewed with the API key alone', () => {
    const { tokens, stored, key, ok, pass } = make();
    const old = key('inference');
    pass(60_001);
    expect(tokens.check('inference', `Bearer ${old}`)?.message).toContain('has expired');
    expect(() => tokens.refresh(`Bearer ${key('management')}`, 'inference')).toThrow('another token');
    expect(() => tokens.refresh(undefined, 'inference')).toThrow('needs a token');
    expect(() => tokens.refresh(`Bearer ${key('API')}`, 'foo')).toThrow('must be inference or management');
    expect(() => tokens.refresh(`Bearer ${key('API')}`, undefined)).toThrow('there is none');
    expect(stored).toHaveLength(1);
    tokens.refresh(`Bearer ${key('API')}`, 'inference');
    expect(ok('inference', old)).toBe(false);
    expect(ok('inference', key('inference'))).toBe(true);
    expect(tokens.check('management', `Bearer ${key('management')}`)?.message).toContain('has expired');
  });

  it('keep the old key when the new one cannot be stored', () => {
    let full = false;
    const kept: KeySet[] = [];
    const { tokens, ok } = make({
      store: (keys) => {
        if (full) throw new Error('disk full');
        kept.push(keys);
      },
    });
    const { inference, API } = kept[0]!;
    full = true;
    expect(() => tokens.refresh(`Bearer ${API.key}`, 'inference')).toThrow('disk full');
    expect(ok('inference', inference.key)).toBe(true);
  });

  it('that were given do not expire, are not renewed, and can be replaced', () => {
    const { tokens, stored, ok, pass } = make({ fixed: { inference: 'mine' } });
    pass(1e9);
    expect(ok('inference', 'mine')).toBe(true);
    const api = `Bearer ${stored[0]!.API.key}`;
    expect(() => tokens.refresh(api, 'inference')).toThrow('was given to the server');
    tokens.refresh(api, 'management');
    expect(ok('inference', 'mine')).toBe(true);
    tokens.setFixed('inference', 'next');
    expect(ok('inference', 'mine')).toBe(false);
    expect(ok('inference', 'next')).toBe(true);
  });

  it('need no file when all were given', () => {
    const { tokens, stored } = make({ required: new Set<Scope>(['management']), fixed: { management: 'm' } });
    expect(stored).toEqual([]);
    expect(() => tokens.refresh('Bearer m', 'management')).toThrow('not renewed');
  });
});

describe('files of keys', () => {
  it('are as TorchServe writes them, and nobody else may read them', () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'));
    try {
      const path = join(folder, 'key_file.json');
      const expires = new Date(0);
      writeKeyFile(path, { management: { key: 'm', expires }, inference: { key: 'i', expires }, API: { key: 'a' } });
      writeKeyFile(path, { management: { key: 'm', expires }, inference: { key: 'j', expires }, API: { key: 'a' } });
      expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
        management: { key: 'm', 'expiration time': '1970-01-01T00:00:00.000Z' },
        inference: { key: 'j', 'expiration time': '1970-01-01T00:00:00.000Z' },
        API: { key: 'a' },
      });
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(readdirSync(folder)).toEqual(['key_file.json']);
      expect(() =>
        writeKeyFile(join(folder, 'none', 'x'), {
          management: { key: '', expires },
          inference: { key: '', expires },
          API: { key: '' },
        }),
      ).toThrow('ENOENT');
      writeFileSync(join(folder, 'secret'), ' word\n');
      expect(readSecret(join(folder, 'secret'))).toBe('word');
      writeFileSync(join(folder, 'secret'), 'two words');
      expect(() => readSecret(join(folder, 'secret'))).toThrow('must hold one word');
      expect(() => readSecret(join(folder, 'nowhere'))).toThrow('cannot be read');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
