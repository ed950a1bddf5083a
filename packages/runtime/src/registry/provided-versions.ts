import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expectationsFile, kitPackage, parseExpectations, providedPackages, satisfies } from '@onnxserve/archiver/provides';
import { ServeError } from '../domain/errors.js';

let installed: Promise<Readonly<Record<string, string>>> | undefined;

/** Versions of the packages that this server brings to handlers. One that is not installed is left out. */
export function providedVersions(): Promise<Readonly<Record<string, string>>> {
  installed ??= findVersions();
  return installed;
}

/**
 * Compares what an archive was built against (`MAR-INF/onnxserve.json`) with what the server brings.
 * @throws {ServeError} INVALID_MODEL with both versions
 */
export async function checkExpectations(
  marInf: string,
  shownName: string,
  provides?: Readonly<Record<string, string>>,
): Promise<void> {
  const text = await readFile(join(marInf, expectationsFile), 'utf8').catch(() => undefined);
  const expects = text === undefined ? undefined : parseExpectations(text);
  if (expects === undefined) return;
  const wanted = {
    ...expects.runtimeProvides,
    ...(expects.handlerKit === undefined ? {} : { [kitPackage]: expects.handlerKit }),
  };
  const there = provides ?? (await providedVersions());
  for (const [name, range] of Object.entries(wanted)) {
    const version = there[name];
    if (version !== undefined && satisfies(version, range)) continue;
    const has = version === undefined ? 'does not bring it' : `brings ${version}`;
    throw new ServeError(
      'INVALID_MODEL',
      `The archive "${shownName}" was built for ${name} ${range}, and this server ${has}. ` +
        'Archive it anew with the versions of this server, or run the server with that version.',
    );
  }
}

async function findVersions(): Promise<Readonly<Record<string, string>>> {
  const versions: Record<string, string> = {};
  for (const name of [...providedPackages, kitPackage]) {
    const version = await versionOf(name);
    if (version !== undefined) versions[name] = version;
  }
  return versions;
}

/** Looks where Node would, without loading the package. */
async function versionOf(name: string): Promise<string | undefined> {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const text = await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8').catch(() => undefined);
    if (text !== undefined) return (JSON.parse(text) as { version?: string }).version;
    if (dirname(folder) === folder) return undefined;
  }
}
