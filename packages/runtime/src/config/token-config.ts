import { isIPv4 } from 'node:net';
import { resolve } from 'node:path';
import type { Scope } from '../domain/authorization.js';
import type { ConfigReader } from './config-reader.js';
import type { GivenToken, GrpcListen, ListenAddress, TokenConfig } from './server-config.js';

/** Variables that hold a token, or name a file that does. */
const variables: Readonly<Record<Scope | 'API', string>> = {
  inference: 'ONNXSERVE_INFERENCE_TOKEN',
  management: 'ONNXSERVE_MANAGEMENT_TOKEN',
  API: 'ONNXSERVE_API_TOKEN',
};

/** Hidden from workers: handlers have no use for the keys of the server that runs them. */
export const secretVariables = /^(?:ONNXSERVE_(?:INFERENCE|MANAGEMENT|API)_TOKEN|TS_KEYSTORE_PASS)$/;

/**
 * Which APIs need a token: none, both, or, when nobody says, management where others can reach it. A token that is given asks for itself.
 */
export function readTokens(
  reader: ConfigReader,
  env: NodeJS.ProcessEnv,
  cwd: string,
  tempDirectory: string,
  listeners: { readonly management: ListenAddress; readonly grpcManagement: GrpcListen },
): TokenConfig {
  const off = reader.isSet('disable_token_authorization') ? reader.boolean('disable_token_authorization') : undefined;
  const inference = given('inference', reader, env, cwd);
  const management = given('management', reader, env, cwd);
  const api = given('API', reader, env, cwd);
  const required = new Set<Scope>();
  if (off === true) {
    if (inference !== undefined || management !== undefined)
      reader.report(
        'warning',
        'disable_token_authorization',
        'a token is given, but disable_token_authorization=true, so nobody needs it',
      );
  } else {
    if (off === false || inference !== undefined) required.add('inference');
    if (off === false || management !== undefined || !managementIsLocal(listeners)) required.add('management');
  }
  return {
    required,
    given: {
      ...(inference === undefined ? {} : { inference }),
      ...(management === undefined ? {} : { management }),
      ...(api === undefined ? {} : { API: api }),
    },
    keyFile: reader.path('token_key_file') ?? resolve(cwd, 'key_file.json'),
    keyFileMayMove: !reader.isSet('token_key_file'),
    tempDirectory,
    lifetimeMinutes: reader.number('token_expiration_min'),
  };
}

/** Whether only this machine reaches the management API. */
export function managementIsLocal({
  management,
  grpcManagement,
}: {
  readonly management: ListenAddress;
  readonly grpcManagement: GrpcListen;
}): boolean {
  return [management, grpcManagement].every(({ host, path }) => path !== undefined || isLoopback(host));
}

function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^::ffff:(?=[\d.]+$)/, '');
  // A name may begin with 127 too.
  return name === 'localhost' || name === '::1' || (isIPv4(name) && name.startsWith('127.'));
}

function given(kind: Scope | 'API', reader: ConfigReader, env: NodeJS.ProcessEnv, cwd: string): GivenToken | undefined {
  const name = variables[kind];
  const value = env[name]?.trim() ?? '';
  const file = env[`${name}_FILE`]?.trim() ?? '';
  if (value !== '' && file !== '') reader.report('error', name, `${name} and ${name}_FILE are both set; unset one of them`);
  if (file !== '') return { from: `${name}_FILE`, file: resolve(cwd, file) };
  if (value === '') return undefined;
  if (!/^\S+$/.test(value)) reader.report('error', name, `${name} must hold one word, the token`);
  return { from: name, value };
}
