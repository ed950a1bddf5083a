import forge from 'node-forge';

export interface Certificate {
  readonly key: string;
  readonly certificate: string;
}

let serial = 1;

/** A self-signed certificate for 127.0.0.1 and localhost, as PEM. */
export function makeCertificate(options: { readonly name?: string; readonly until?: Date } = {}): Certificate {
  const { pki } = forge;
  const keys = pki.rsa.generateKeyPair({ bits: 2048 });
  const certificate = pki.createCertificate();
  certificate.publicKey = keys.publicKey;
  certificate.serialNumber = String(serial++).padStart(2, '0');
  certificate.validity.notBefore = new Date(Date.now() - 86_400_000 * 2);
  certificate.validity.notAfter = options.until ?? new Date(Date.now() + 86_400_000);
  const subject = [{ name: 'commonName', value: options.name ?? 'localhost' }];
  certificate.setSubject(subject);
  certificate.setIssuer(subject);
  certificate.setExtensions([
    { name: 'basicConstraints', cA: true },
    {
      name: 'subjectAltName',
      altNames: [
        { type: 2, value: 'localhost' },
        { type: 7, ip: '127.0.0.1' },
      ],
    },
  ]);
  certificate.sign(keys.privateKey, forge.md.sha256.create());
  const key = pki.privateKeyInfoToPem(pki.wrapRsaPrivateKey(pki.privateKeyToAsn1(keys.privateKey)));
  return { key, certificate: pki.certificateToPem(certificate) };
}

/** The same as a PKCS12 file. */
export function makePkcs12({ key, certificate }: Certificate, password: string): Buffer {
  const { pki, pkcs12, asn1 } = forge;
  const store = pkcs12.toPkcs12Asn1(pki.privateKeyFromPem(key), [pki.certificateFromPem(certificate)], password, {
    algorithm: 'aes256',
  });
  return Buffer.from(asn1.toDer(store).getBytes(), 'binary');
}
