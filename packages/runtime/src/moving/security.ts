import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { findKey } from '../config/keys.js';
import type { LoadedConfig } from '../config/server-config.js';
import { finding, type MovingFinding } from './report.js';

/** Who may call the server, compared with TorchServe under the same settings. */
export async function securityFindings(
  directory: string,
  { config }: LoadedConfig,
  texts: ReadonlyMap<string, string>,
): Promise<MovingFinding[]> {
  const findings: MovingFinding[] = [];
  const hasTokens = findKey('token_expiration_min')?.status === 'used';
  const disabled = texts.get('disable_token_authorization')?.trim().toLowerCase() === 'true';
  if (disabled) findings.push(finding('works', 'tokens', 'off in both, as disable_token_authorization says'));
  else if (hasTokens)
    findings.push(finding('works', 'tokens', 'asked for on the inference and management APIs, as in TorchServe'));
  else
    findings.push(
      finding('work', 'tokens', 'TorchServe asks for tokens unless disable_token_authorization=true; this version checks none', {
        steps: [{ what: 'Keep the listeners on 127.0.0.1, or put a proxy in front that checks who calls.', commands: [] }],
      }),
    );
  const keyFile = join(directory, 'key_file.json');
  const info = await stat(keyFile).catch(() => undefined);
  if (info?.isFile()) findings.push(await keyFileFinding(keyFile, info.mode, hasTokens && !disabled));
  if (!config.enableModelApi)
    findings.push(finding('works', 'enable_model_api', 'off in both: no models are registered over the network, only scaled'));
  for (const [key, address] of [
    ['inference_address', config.inferenceAddress],
    ['management_address', config.managementAddress],
    ['metrics_address', config.metricsAddress],
  ] as const) {
    const isLocal =
      address.path !== undefined || address.host === 'localhost' || address.host === '::1' || address.host.startsWith('127.');
    if (!isLocal && key === 'management_address')
      findings.push(
        finding(
          'differs',
          `${key}=${address.text}`,
          'open to other machines, as in TorchServe; whoever reaches it manages models',
        ),
      );
  }
  return findings;
}

async function keyFileFinding(path: string, mode: number, used: boolean): Promise<MovingFinding> {
  const subject = basename(path);
  const notes = (mode & 0o077) === 0 ? [] : [`it can be read by others: chmod 600 ${path}`];
  let names: string[];
  try {
    const json = JSON.parse(await readFile(path, 'utf8')) as Record<string, { key?: unknown } | undefined>;
    names = ['management', 'inference', 'API'].filter((name) => typeof json[name]?.key === 'string');
  } catch (error) {
    return finding('error', subject, `no key file: ${(error as Error).message}`, { notes });
  }
  const keys = `keys for ${names.join(', ') || 'nothing'}`;
  return finding(
    used ? 'works' : 'differs',
    subject,
    used ? `${keys}; a server writes new ones when it starts, as TorchServe does` : `${keys}; not read`,
    {
      notes,
    },
  );
}
