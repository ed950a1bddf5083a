import { boolean, choice, key, type KeySpec, number, path, text } from './key-spec.js';

export const securityKeys: readonly KeySpec[] = [
  key(
    'disable_token_authorization',
    boolean,
    '`true`: no tokens on any listener. `false`: inference and management both need one. Not set: management needs one when it can be reached from other machines.',
    { defaultDoc: 'not set' },
  ),
  key('token_expiration_min', number(0.001, 5_256_000), 'How long a token that the server made is good for.', {
    default: '60',
    unit: 'min',
  }),
  key('token_key_file', path, 'Where the server writes the tokens that it made.', {
    defaultDoc: '`key_file.json` in the start directory',
    from: 'onnxserve',
  }),
  key('enable_model_api', boolean, 'Allow models and workflows to be registered and removed over the network.', {
    default: 'false',
  }),
  key(
    'allow_private_urls',
    boolean,
    'Fetch archives from loopback and private addresses too. Not set: only while management itself is on loopback, or when an entry of `allowed_urls` names the host.',
    { defaultDoc: 'not set', from: 'onnxserve' },
  ),
  key('certificate_file', path, 'TLS certificate and those that vouch for it, a PEM file. Read again when it changes.'),
  key('private_key_file', path, 'TLS private key, a PEM file without a password.'),
  key('keystore', path, 'TLS key store with key and certificates, in the place of the two PEM files.'),
  key('keystore_pass', text, 'Password of the key store.', { default: 'changeit', secret: true }),
  key('keystore_type', choice('PKCS12', 'pkcs12', 'JKS', 'jks'), 'Kind of the key store; a JKS one must be converted.', {
    default: 'PKCS12',
  }),
];
