import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { blocks, commands, type Page, page, pages, root } from './markdown.js';

const all = pages();
const shell = all
  .flatMap((from) => blocks(from))
  .filter(({ language }) => ['sh', 'bash', 'shell', 'console'].includes(language))
  .flatMap((block) => commands(block).map((command) => [block.page, command] as const));

const helps = new Map<string, string>();
/** `--help` of a command of ours. */
function help(command: string): string {
  const known = helps.get(command);
  if (known !== undefined) return known;
  const [name = '', ...rest] = command.split(' ');
  const bins: Record<string, string> = {
    onnxserve: 'packages/runtime/bin/onnxserve.js',
    'onnxserve-model-archiver': 'packages/archiver/bin/onnxserve-model-archiver.js',
    'onnxserve-workflow-archiver': 'packages/archiver/bin/onnxserve-workflow-archiver.js',
  };
  const program = join(root, bins[name] ?? 'no such command');
  const { status, stdout } = spawnSync(process.execPath, [program, ...rest, '--help'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} --help ended with ${status}`);
  helps.set(command, stdout);
  return stdout;
}

/** Flags of `given` that the help does not list. */
function unknownFlags(given: readonly string[], text: string): string[] {
  const flags = given.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.split('=')[0]!);
  return flags.filter((flag) => !new RegExp(`(^|[\\s,])${flag}(?![\\w-])`, 'm').test(text));
}

interface Manifest {
  readonly scripts?: Record<string, string>;
}
const manifest = (folder: string) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest;

/** Where a page's commands are typed: examples say "from this folder", all others mean the checkout. */
function folderOf(from: string): string {
  return from.startsWith('packages/examples/') ? dirname(from) : '.';
}

/** What is wrong with a command; nothing when all is well. */
function problems(from: string, command: string): string[] {
  const words = command.split(/\s+/).filter((word) => !/^[A-Z_]+=/.test(word));
  const own = folderOf(from);
  const missing = (...files: string[]) => files.filter((file) => !existsSync(join(root, own, file))).map((file) => `no ${file}`);
  switch (words[0] ?? '') {
    case 'npx': {
      const [, name = '', second = ''] = words;
      if (name === 'vitest') return missing(...words.slice(3));
      // Its file is a block of the guide, which handler-guide.test.ts runs.
      if (name === 'tsx') return [];
      const sub = name === 'onnxserve' && !second.startsWith('-') ? `${name} ${second}` : name;
      return unknownFlags(words.slice(2), help(sub));
    }
    case 'npm': {
      const [, verb = '', name = ''] = words;
      if (verb === 'ci' || verb === 'init' || verb === 'pkg') return [];
      if (verb === 'install') {
        const ours = words.slice(2).filter((word) => word.includes('onnxserve/'));
        return missing(...ours.map((word) => word.replace('/path/to/onnxserve/', '').replace('@onnxserve/', 'packages/')));
      }
      const script = verb === 'run' ? name : verb;
      return manifest(own).scripts?.[script] === undefined ? [`no script ${script} in ${own}/package.json`] : [];
    }
    case 'mkdir':
    case 'cd':
      return [];
    case 'node':
      // Node finds `install.js` as `install` too.
      return missing(`${words[1] ?? ''}.js`).length === 0 ? [] : missing(words[1] ?? '');
    case 'curl':
      // Sent to a running server by quickstart.test.ts; here only what that one does not serve.
      return /\/predictions\/(digits|ocr)|\/health|:8081\/models/.test(command)
        ? []
        : missing(...[...command.matchAll(/(?:-T |@)(\S+)/g)].map(([, file]) => file!));
    case 'python3':
      return command.startsWith('python3 -m venv venv && venv/bin/pip install -r ')
        ? missing(words.at(-1)!)
        : ['a command that this test cannot check'];
    case 'venv/bin/python':
      return missing(words[1] ?? '');
    default:
      return ['a command that this test cannot check'];
  }
}

it('finds the commands of README and docs', () => {
  for (const name of ['README.md', 'CONTRIBUTING.md', 'docs/operations.md', 'docs/handler-guide.md'])
    expect(shell.map(([from]) => from)).toContain(name);
});

it.each(shell)('%s: %s', (from, command) => {
  expect(problems(from, command)).toEqual([]);
});

it('would notice what is not there', () => {
  expect(problems('README.md', 'npm install /path/to/onnxserve/packages/none')).toEqual(['no packages/none']);
  expect(problems('README.md', 'npx onnxserve start --model-shop x')).toEqual(['--model-shop']);
  expect(problems('README.md', 'npm run no-such-script')).toHaveLength(1);
  expect(problems('README.md', 'node no-such-file.mjs')).toEqual(['no no-such-file.mjs']);
});

describe('links', () => {
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
  const withoutCode = ({ text }: Page) => text.replaceAll(/^```.*?^```$/gms, '');
  const anchors = (target: string) => [...withoutCode(page(target)).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => slug(heading!));

  it.each(all.map((from) => [from.path, from] as const))('of %s lead somewhere', (path, from) => {
    const broken: string[] = [];
    for (const [, link = ''] of withoutCode(from).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : normalize(join(dirname(path), file));
      const good = existsSync(join(root, target)) && (anchor === undefined || anchors(target).includes(anchor));
      if (!good) broken.push(link);
    }
    expect(broken).toEqual([]);
  });

  it('lead from docs/README.md to every page of docs', () => {
    const { text } = page('docs/README.md');
    for (const { path } of all.filter((it) => it.path.startsWith('docs/') && it.path !== 'docs/README.md'))
      expect(text).toContain(`(${path.slice('docs/'.length)}`);
  });
});
