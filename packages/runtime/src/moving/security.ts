import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { LoadedConfig } from '../config/server-config.js';
import { finding, type MovingFinding, shellWord } from './report.js';

/** Who may call the server, compared with TorchServe under the same settings. */
export async function securityFindings(
  directory: string,
  { config }: LoadedConfig,
  texts: ReadonlyMap<string, string>,
): Promise<MovingFinding[]> {
  const findings = [tokenFinding(texts.get('disable_token_authorization'))];
  const keyFile = join(directory, 'key_file.json');
  const info = await stat(keyFile).catch(() => undefined);
  if (info?.isFile()) findings.push(await keyFileFinding(keyFile, info.mode));
  if (!config.enableModelApi)
    findings.push(finding('works', 'enable_model_api', 'off in both: no models are registered over the network, only scaled'));
  return [...findings, ...openFindings(config)];
}

/** Listeners that other machines reach and that ask for no token. */
function openFindings({ tokens, inferenceAddress, managementAddress }: LoadedConfig['config']): MovingFinding[] {
  const listeners = [
    ['inference', inferenceAddress, 'whoever reaches it gets predictions; docs/security.md'],
    ['management', managementAddress, 'whoever reaches it scales and removes models; docs/security.md'],
  ] as const;
  return listeners.flatMap(([name, { host, path, text }, what]) => {
    const isLocal = path !== undefined || host === 'localhost' || host === '::1' || host.startsWith('127.');
    if (isLocal || tokens.required.has(name)) return [];
    return [finding('differs', `${name}_address=${text}`, `other machines reach it without a token: ${what}`)];
  });
}

function tokenFinding(setting: string | undefined): MovingFinding {
  switch (setting?.trim().toLowerCase()) {
    case 'true':
      return finding('works', 'tokens', 'off in both, as disable_token_authorization says');
    case undefined:
    case '':
      return finding(
        'differs',
        'tokens',
        'disable_token_authorization is not set: TorchServe asks for tokens on inference and management, this server on management alone, and ' +
          'only when other machines can reach it',
        { notes: ['as before: disable_token_authorization=false'] },
      );
    default:
      return finding('works', 'tokens', 'asked for on inference and management in both');
  }
}

async function keyFileFinding(path: string, mode: number): Promise<MovingFinding> {
  const subject = basename(path);
  const notes = (mode & 0o077) === 0 ? [] : [`it can be read by others: chmod 600 ${shellWord(path)}`];
  let names: string[];
  try {
    const json = JSON.parse(await readFile(path, 'utf8')) as Record<string, { key?: unknown } | undefined>;
    names = ['management', 'inference', 'API'].filter((name) => typeof json[name]?.key === 'string');
  } catch {
    // What the parser says would quote the file.
    return finding('error', subject, 'it is no JSON object of keys', { notes });
  }
  const keys = `keys for ${names.join(', ') || 'nothing'}`;
  return finding('works', subject, `${keys}; each start writes new ones, as TorchServe does`, { notes });
}
