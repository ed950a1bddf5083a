import { resolve } from 'node:path';
import type { Scope } from '../domain/authorization.js';
import type { ConfigReader } from './config-reader.js';
import type { GrpcListen, ListenAddress, TokenConfig } from './server-config.js';

/** Variables that hold a token, or name a file that does. */
const variables: Readonly<Record<Scope, string>> = {
  inference: 'ONNXSERVE_INFERENCE_TOKEN',
  management: 'ONNXSERVE_MANAGEMENT_TOKEN',
};

/**
 * Which APIs need a token: none, both, or, when nobody says, management where others can reach it. A token that is given asks for itself.
 */
export function readTokens(
  reader: ConfigReader,
  env: NodeJS.ProcessEnv,
  cwd: string,
  listeners: { readonly management: ListenAddress; readonly grpcManagement: GrpcListen },
): TokenConfig {
  const off = reader.isSet('disable_token_authorization') ? reader.boolean('disable_token_authorization') : undefined;
  const inference = given('inference', reader, env, cwd);
  const management = given('management', reader, env, cwd);
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
    given: { ...(inference === undefined ? {} : { inference }), ...(management === undefined ? {} : { management }) },
    keyFile: reader.path('token_key_file') ?? resolve(cwd, 'key_file.json'),
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
  return host === 'localhost' || host === '::1' || /^(?:::ffff:)?127\./.test(host);
}

function given(scope: Scope, reader: ConfigReader, env: NodeJS.ProcessEnv, cwd: string): TokenConfig['given'][Scope] {
  const name = variables[scope];
  const value = env[name]?.trim() ?? '';
  const file = env[`${name}_FILE`]?.trim() ?? '';
  if (value !== '' && file !== '') reader.report('error', name, `${name} and ${name}_FILE are both set; unset one of them`);
  if (file !== '') return { from: `${name}_FILE`, file: resolve(cwd, file) };
  if (value === '') return undefined;
  if (!/^\S+$/.test(value)) reader.report('error', name, `${name} must hold one word, the token`);
  return { from: name, value };
}
