import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { TlsConfig } from '../config/server-config.js';
import { ListenError } from './listen-error.js';
import { readPkcs12 } from './pkcs12.js';

/** PEM texts of what a TLS listener proves itself with. */
export interface TlsMaterial {
  readonly key: string;
  /** The listener's own certificate first, then those that vouch for it. */
  readonly certificate: string;
}

/**
 * Reads and checks what the configuration names for TLS.
 * @throws {ListenError} naming the setting and file that is missing, unreadable, expired, or does not fit the other
 */
export async function readTls(config: TlsConfig, now: Date = new Date()): Promise<TlsMaterial> {
  const { certificateFile, privateKeyFile, keystore } = config;
  if (keystore !== undefined && (certificateFile === undefined || privateKeyFile === undefined)) {
    const what = `keystore=${keystore}`;
    return check(await readKeystore(what, config), what, what, now);
  }
  const [certificate, key] = await Promise.all([
    read('certificate_file', certificateFile),
    read('private_key_file', privateKeyFile),
  ]);
  // The mark that some editors put in front would hide the first certificate.
  const text = (bytes: Buffer) => bytes.toString('latin1').replace(/^\u00ef\u00bb\u00bf/, '');
  const material = { certificate: text(certificate), key: text(key) };
  return check(material, `certificate_file=${certificateFile}`, `private_key_file=${privateKeyFile}`, now);
}

/** The files that `readTls` reads. */
export function tlsFiles({ certificateFile, privateKeyFile, keystore }: TlsConfig): string[] {
  if (certificateFile !== undefined && privateKeyFile !== undefined) return [certificateFile, privateKeyFile];
  return keystore === undefined ? [] : [keystore];
}

async function read(setting: string, file: string | undefined): Promise<Buffer> {
  if (file === undefined) throw new ListenError(`TLS needs ${setting}, a PEM file, or keystore, a PKCS12 file.`);
  try {
    return await readFile(file);
  } catch (error) {
    throw new ListenError(`${setting}=${file} cannot be read: ${(error as Error).message}.`, { cause: error });
  }
}

async function readKeystore(what: string, { keystore, keystorePass, keystoreType }: TlsConfig): Promise<TlsMaterial> {
  const bytes = await read('keystore', keystore);
  const isJks = bytes.length >= 4 && (bytes.readUInt32BE(0) === 0xfeedfeed || bytes.readUInt32BE(0) === 0xcececece);
  if (isJks || keystoreType === 'JKS') {
    throw new ListenError(
      `${what} is a Java key store (JKS). Convert it: keytool -importkeystore -srckeystore ${keystore} -destkeystore keystore.p12 -deststoretype PKCS12, then set keystore=keystore.p12 and keystore_type=PKCS12.`,
    );
  }
  try {
    return await readPkcs12(bytes, keystorePass);
  } catch (error) {
    throw new ListenError(`${what} cannot be used: ${(error as Error).message} (password: keystore_pass).`, { cause: error });
  }
}

function check(material: TlsMaterial, certificateFrom: string, keyFrom: string, now: Date): TlsMaterial {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(material.certificate);
  } catch (error) {
    throw new ListenError(`${certificateFrom} holds no certificate in PEM form.`, { cause: error });
  }
  let key;
  try {
    key = createPrivateKey(material.key);
  } catch (error) {
    const why = /ENCRYPTED/.test(material.key)
      ? 'its key has a password; write it without one (openssl pkey -in KEY -out PLAIN), or use a key store'
      : 'it holds no private key in PEM form';
    throw new ListenError(`${keyFrom} cannot be used: ${why}.`, { cause: error });
  }
  if (!certificate.checkPrivateKey(key))
    throw new ListenError(
      `${keyFrom} is not the key of the first certificate in ${certificateFrom}, ${certificate.subject.replaceAll('\n', ', ')}; those that vouch for it come after it.`,
    );
  if (new Date(certificate.validTo) < now) {
    throw new ListenError(`The certificate in ${certificateFrom} has expired (${certificate.validTo}); clients would refuse it.`);
  }
  try {
    createSecureContext({ key: material.key, cert: material.certificate });
  } catch (error) {
    throw new ListenError(`${certificateFrom} cannot be used for TLS: ${(error as Error).message}.`, { cause: error });
  }
  return material;
}
