import type { asn1 as Asn1, pkcs12 as Pkcs12, pki as Pki } from 'node-forge';
import type { TlsMaterial } from './tls.js';

interface Forge {
  readonly asn1: typeof Asn1;
  readonly pkcs12: typeof Pkcs12;
  readonly pki: typeof Pki;
}
type Bag = Pkcs12.Bag & { readonly asn1: Asn1.Asn1; readonly attributes: { readonly localKeyId?: readonly string[] } };

/**
 * Key and certificates of a PKCS12 file as PEM, of whatever kind the key is.
 * @throws {Error} when the password is wrong or the file holds no private key with a certificate
 */
export async function readPkcs12(bytes: Buffer, password: string): Promise<TlsMaterial> {
  // Loaded here: few servers have such a file.
  const { default: forge } = (await import('node-forge')) as unknown as { default: Forge };
  const { asn1, pkcs12, pki } = forge;
  let store: Pkcs12.Pkcs12Pfx;
  try {
    store = pkcs12.pkcs12FromAsn1(asn1.fromDer(bytes.toString('binary')), password);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      /password|MAC/i.test(message) ? 'the password is wrong' : `it is no PKCS12 file that can be read (${message})`,
      {
        cause: error,
      },
    );
  }
  const bags = (type: string) => (store.getBags({ bagType: type })[type] ?? []) as Bag[];
  const [key] = [...bags(pki.oids['pkcs8ShroudedKeyBag']!), ...bags(pki.oids['keyBag']!)];
  if (key === undefined) throw new Error('it holds no private key');
  const certificates = bags(pki.oids['certBag']!);
  if (certificates.length === 0) throw new Error('it holds no certificate');
  const pem = (label: string, der: Buffer) =>
    `-----BEGIN ${label}-----\n${der.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END ${label}-----\n`;
  const der = (node: Asn1.Asn1) => Buffer.from(asn1.toDer(node).getBytes(), 'binary');
  const keyDer = key.key ? der(pki.wrapRsaPrivateKey(pki.privateKeyToAsn1(key.key))) : der(key.asn1);
  const id = key.attributes.localKeyId?.[0];
  const own = certificates.find(({ attributes }) => id !== undefined && attributes.localKeyId?.[0] === id) ?? certificates[0]!;
  const chain = [own, ...certificates.filter((it) => it !== own)];
  const certificateDer = ({ cert, asn1: node }: Bag) => der(cert ? pki.certificateToAsn1(cert) : node);
  return {
    key: pem('PRIVATE KEY', keyDer),
    certificate: chain.map((it) => pem('CERTIFICATE', certificateDer(it))).join(''),
  };
}
