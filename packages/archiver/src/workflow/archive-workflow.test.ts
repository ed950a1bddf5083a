import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runWorkflowCommand } from '../cli/workflow-command.js';
import { parseWorkflowManifest } from './manifest.js';

let work: string;
beforeEach(async () => {
  work = await mkdtemp(join(tmpdir(), 'workflow-'));
  await mkdir(join(work, 'out'));
  await writeFile(join(work, 'spec.yaml'), 'models: {m: {url: m.mar}}\ndag: {pre: [m]}');
  await writeFile(join(work, 'functions.ts'), 'export const pre = (request: { text(): string }): string => request.text();');
});
afterEach(() => rm(work, { recursive: true, force: true }));

async function run(flags: Readonly<Record<string, string>>): Promise<{ code: number; out: string; errors: string }> {
  const lines = { out: '', errors: '' };
  const given = { '--workflow-name': 'w', '--spec-file': join(work, 'spec.yaml'), '--export-path': join(work, 'out'), ...flags };
  const args = Object.entries(given).flatMap(([flag, value]) => (value === '' ? [flag] : [flag, value]));
  const output = { out: (line: string) => void (lines.out += line), error: (line: string) => void (lines.errors += line) };
  return { code: await runWorkflowCommand(args, output, false), ...lines };
}

const files = () => readdir(join(work, 'out'));

describe('onnxserve-workflow-archiver', () => {
  it('writes NAME.war once, and again with -f', async () => {
    const handler = { '--handler': join(work, 'functions.ts'), '--extra-files': join(work, 'spec.yaml') };
    expect(await run(handler)).toEqual({ code: 0, out: join(work, 'out', 'w.war'), errors: '' });
    const second = await run(handler);
    expect(second).toMatchObject({ code: 1, errors: expect.stringContaining('already exists') });
    expect(await run({ ...handler, '-f': '' })).toMatchObject({ code: 0 });
    expect(await files()).toEqual(['w.war']);
  });

  it.each([
    ['no functions file', {}, 'The nodes pre are no models'],
    ['a Python file', { '--handler': 'functions.py' }, 'is Python'],
    ['no spec', { '--spec-file': 'nowhere.yaml' }, 'nowhere.yaml, which is no file'],
    ['a name with a slash', { '--workflow-name': '../w' }, 'no slashes'],
    ['no such folder', { '--export-path': 'nowhere' }, 'is no folder'],
  ])('refuses %s by name and writes nothing', async (_, flags, message) => {
    expect(await run(flags as Record<string, string>)).toMatchObject({ code: 1, errors: expect.stringContaining(message) });
    expect(await files()).toEqual([]);
  });

  it('refuses a function that is not exported', async () => {
    await writeFile(join(work, 'spec.yaml'), 'dag: {pre: [post]}');
    const { code, errors } = await run({ '--handler': join(work, 'functions.ts') });
    expect(code).toBe(1);
    expect(errors).toContain('exports no "post"; it exports pre');
  });

  it('ends with 2 when a flag is missing or unknown', async () => {
    expect((await run({ '--unknown': 'x' })).code).toBe(2);
  });
});

describe('a workflow manifest', () => {
  it('is read as TorchServe writes it', () => {
    const text =
      '{"createdOn":"30/11/2026","workflow":{"workflowName":"w","specFile":"s.yaml","handler":"h.py"},"archiverVersion":"0.2.15"}';
    expect(parseWorkflowManifest(text).workflow).toEqual({ workflowName: 'w', specFile: 's.yaml', handler: 'h.py' });
  });

  it.each([
    ['{', /not valid JSON/],
    ['[]', /JSON object/],
    ['{}', /"workflow" must be an object/],
    ['{"workflow":{}}', /no field "workflow.specFile"/],
    ['{"workflow":{"specFile":3}}', /"workflow.specFile" must be a string/],
  ])('is refused: %s', (text, message) => {
    expect(() => parseWorkflowManifest(text)).toThrow(message);
  });
});
