import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TlsConfig } from '../config/server-config.js';
import { readTls } from './tls.js';

const stores = fileURLToPath(new URL('../../test-support/keystores/', import.meta.url));
const none: TlsConfig = {
  certificateFile: undefined,
  privateKeyFile: undefined,
  keystore: undefined,
  keystorePass: 'changeit',
  keystoreType: 'PKCS12',
};
const store = (file: string, more: Partial<TlsConfig> = {}) => readTls({ ...none, keystore: join(stores, file), ...more });

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tls-'));
  for (const kind of ['rsa', 'ec']) {
    const { key, certificate } = await store(`openssl-${kind}.p12`);
    writeFileSync(join(folder, `${kind}-key.pem`), key);
    writeFileSync(join(folder, `${kind}.pem`), certificate);
  }
  const key = createPrivateKey(readFileSync(join(folder, 'rsa-key.pem')));
  writeFileSync(join(folder, 'locked.pem'), key.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }));
  writeFileSync(join(folder, 'text.pem'), 'hello');
  const [rsa, ec] = ['rsa.pem', 'ec.pem'].map((file) => readFileSync(join(folder, file), 'utf8'));
  writeFileSync(join(folder, 'wrong-order.pem'), `${rsa}${ec}`);
  writeFileSync(join(folder, 'marked.pem'), `\uFEFF${ec}${rsa}`);
});
afterAll(() => rmSync(folder, { recursive: true }));

const pem = (certificate: string, key: string, now?: Date) =>
  readTls({ ...none, certificateFile: join(folder, certificate), privateKeyFile: join(folder, key) }, now);

describe('key stores', () => {
  it.each(['openssl-rsa.p12', 'openssl-ec.p12', 'java-rsa.p12', 'java-ec.p12'])('%s is read', async (file) => {
    const { key, certificate } = await store(file);
    expect(new X509Certificate(certificate).subject).toContain('localhost');
    expect(new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))).toBe(true);
  });

  it.each([
    ['openssl-rsa.p12', { keystorePass: 'wrong' }, /the password is wrong \(password: keystore_pass\)/],
    ['java.jks', {}, /Java key store \(JKS\)\. Convert it: keytool -importkeystore/],
    ['java-rsa.p12', { keystoreType: 'JKS' as const }, /Convert it/],
    ['make.sh', {}, /no PKCS12 file/],
    ['nowhere.p12', {}, /keystore=.*nowhere\.p12 cannot be read/],
  ])('%s %j is refused', async (file, more, message) => {
    await expect(store(file, more)).rejects.toThrow(message);
  });
});

describe('PEM files', () => {
  it('are read and fit', async () => {
    expect((await pem('ec.pem', 'ec-key.pem')).key).toContain('PRIVATE KEY');
    // With a byte order mark and the certificates that vouch for it.
    expect((await pem('marked.pem', 'ec-key.pem')).certificate).toMatch(/^-----BEGIN/);
  });

  it.each([
    ['rsa.pem', 'ec-key.pem', /ec-key\.pem is not the key of the first certificate in certificate_file=.*rsa\.pem, CN=/],
    ['wrong-order.pem', 'ec-key.pem', /the first certificate in .*, CN=.*; those that vouch for it come after it/],
    ['text.pem', 'rsa-key.pem', /certificate_file=.*text\.pem holds no certificate/],
    ['rsa.pem', 'text.pem', /private_key_file=.*text\.pem cannot be used: it holds no private key/],
    ['rsa.pem', 'locked.pem', /its key has a password/],
    ['nowhere.pem', 'rsa-key.pem', /certificate_file=.*nowhere\.pem cannot be read/],
  ])('%s with %s are refused', async (certificate, key, message) => {
    await expect(pem(certificate, key)).rejects.toThrow(message);
  });

  it('are refused when they have expired', async () => {
    await expect(pem('rsa.pem', 'rsa-key.pem', new Date('2300-01-01'))).rejects.toThrow(/has expired/);
  });
});
