import { readFile } from 'node:fs/promises';
import { pathInside } from '../registry/entry-path.js';
import { counterpartOf } from './python-packages.js';

/** Names of packages whose import has another name. */
const imports: Readonly<Record<string, string>> = {
  pillow: 'PIL',
  'opencv-python': 'cv2',
  'opencv-python-headless': 'cv2',
  'scikit-learn': 'sklearn',
  pyyaml: 'yaml',
};
const mostBytes = 1 << 20;

/** What a requirements file asks for, and what there is here in its place. */
export async function readRequirements(root: string, file: string): Promise<string[]> {
  const text = await readFile(pathInside(root, file, 'field "model.requirementsFile"'), 'utf8').catch(() => undefined);
  if (text === undefined) return [`${file} is not in the archive`];
  const names = text
    .slice(0, mostBytes)
    .split(/\r?\n/)
    .flatMap((line) => /^\s*([A-Za-z0-9][\w.-]*)/.exec(line)?.[1] ?? [])
    .map((name) => name.toLowerCase().replaceAll('_', '-'));
  const known = [...new Set(names)].map((name) => ({ name, instead: counterpartOf(imports[name] ?? name) }));
  const lines = known.flatMap(({ name, instead }) => (instead === undefined ? [] : [`${file}: ${name}: ${instead}`]));
  const others = known.filter(({ instead }) => instead === undefined).map(({ name }) => name);
  return [
    `${file} is not used: nothing is installed on the server; what a handler imports is bundled into its archive`,
    ...lines,
    ...(others.length === 0 ? [] : [`${file}: ${others.join(', ')}: look for packages of npm`]),
  ];
}
