import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { post } from '../helpers/client.js';
import { runCommand } from '../helpers/command.js';
import { manifest, writeZip } from '../conformance/lib/archives.mjs';
import { startServer, type TestServer } from '../helpers/server.js';

const fixtures = fileURLToPath(new URL('../fixtures/torchserve/', import.meta.url));

interface Finding {
  readonly status: string;
  readonly subject: string;
  readonly where?: string;
  readonly message: string;
  readonly notes: readonly string[];
  readonly steps: ReadonlyArray<{ readonly what: string; readonly commands: readonly string[]; readonly code?: string }>;
}
interface Report {
  readonly sections: ReadonlyArray<{ readonly title: string; readonly findings: readonly Finding[] }>;
  readonly summary: Readonly<Record<string, number>>;
  readonly serve: readonly string[];
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'onnxserve-moving-'));
  cpSync(join(fixtures, 'site'), join(folder, 'site'), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const check = (...args: readonly string[]) => runCommand(['check', '--from-torchserve', 'site', ...args], folder);
const reportOf = async (...args: readonly string[]) => JSON.parse((await check('--json', ...args)).stdout) as Report;
const all = (report: Report) => report.sections.flatMap(({ findings }) => findings);
const about = (report: Report, subject: string) =>
  all(report).find((it) => it.subject === subject || it.subject.startsWith(`${subject}=`));

describe('a directory made by the real archivers', () => {
  it('says of each archive what becomes of it', async () => {
    const { code, stdout } = await check('--json');
    expect(code).toBe(3);
    const report = JSON.parse(stdout) as Report;
    const statusOf = (title: string) =>
      report.sections
        .find((it) => it.title.startsWith(title))
        ?.findings.map(({ subject, status, message }) => [subject, status, message]);
    expect(statusOf('Models')).toEqual([
      ['bert.mar', 'work', 'model "bert" version 1.0 needs an ONNX export and a TypeScript handler'],
      ['detector.mar', 'work', 'model "detector" version 1.0 needs an ONNX export and a TypeScript handler'],
      ['digits.mar', 'work', 'model "digits" version 1.0 needs an ONNX export and a TypeScript handler'],
      ['echo.mar', 'work', 'model "echo" version 1.0 needs a TypeScript handler'],
      ['echo_both.mar', 'works', 'model "echo_both" version 1.0, echo.js'],
      ['native.mar', 'work', 'model "native" version 1.0 needs an ONNX export'],
      ['onnx_picture.mar', 'works', 'model "onnx_picture" version 1.0, bundled handler image_classifier'],
      ['pickled.mar', 'work', 'model "pickled" version 1.0 needs an ONNX export and a TypeScript handler'],
      ['program.mar', 'work', 'model "program" version 1.0 needs an ONNX export and a TypeScript handler'],
      ['script.mar', 'work', 'model "script" version 1.0 needs an ONNX export'],
      ['texts.mar', 'work', 'model "texts" version 1.0 needs an ONNX export and a TypeScript handler'],
    ]);
    expect(statusOf('Workflows')).toEqual([
      ['chain.war', 'works', 'workflow "chain": onnx_picture (model)'],
      ['say.war', 'work', 'workflow "say" needs its functions in TypeScript'],
    ]);
  });

  it('reads what a Python handler does, imports and defines', async () => {
    const { notes } = about(await reportOf(), 'digits.mar')!;
    expect(notes).toContain('digits_handler.py: class Digits(BaseHandler) defines initialize, preprocess, postprocess');
    expect(notes).toContain('it imports shared.py of the archive');
    for (const name of [
      'PIL',
      'cv2',
      'numpy',
      'scipy',
      'torchvision',
      'requirements.txt: pillow',
      'context.metrics.add_…',
      'net.pth is a state dict',
    ])
      expect(notes.join('\n')).toContain(name);
    expect(notes.join('\n')).toContain('useVenv');
    // Python's own modules, comments and texts are none of it.
    expect(notes.join('\n')).not.toMatch(/explain_handle|Fake|base64|logging/);
  });

  it('says where handlers with sequences find what they use', async () => {
    await writeZip(join(folder, 'site/model-store/turns.mar'), {
      'MAR-INF/MANIFEST.json': manifest({ modelName: 'turns', handler: 'turns.py:Turns', configFile: 'model-config.yaml' }),
      'turns.py':
        'class Turns:\n    def handle(self, data, context):\n        return [context.get_sequence_id(0), context.cache]\n',
      'model-config.yaml': 'sequenceBatching: true\ncontinuousBatching: true\n',
    });
    const { notes, message } = about(await reportOf(), 'turns.mar')!;
    expect(message).toBe('model "turns" version 1.0 needs a TypeScript handler');
    expect(notes).toContain('turns.py: class Turns defines handle');
    for (const word of ['startSequence', '`step`', 'request.sequence?.id', 'ctx.sequence.state'])
      expect(notes.join('\n')).toContain(word);
  });

  it.each([
    ['digits.mar', ['from net import Net', 'weights_only=True', 'dynamo=True'], 'python3 moved/digits/export.py'],
    ['script.mar', ['torch.jit.load("script.pt"', 'dynamo=False'], 'python3 moved/script/export.py'],
    ['pickled.mar', ['weights_only=False', 'needs net.Net\n'], 'python3 moved/pickled/export.py'],
    ['program.mar', ['torch.export.load("program.pt2")'], 'python3 moved/program/export.py'],
    ['detector.mar', ['["boxes", "labels", "scores"]'], 'python3 moved/detector/export.py'],
    ['bert.mar', [], 'optimum-cli export onnx --model moved/bert --task text-classification moved/bert'],
  ])('tells how to export %s', async (subject, lines, command) => {
    const { steps } = about(await reportOf(), subject)!;
    const step = steps.find(({ commands }) => commands.includes(command));
    for (const line of lines) expect(step?.code).toContain(line);
  });

  it('sorts settings by what becomes of them', async () => {
    const report = await reportOf();
    expect(about(report, 'job_queue_size')).toMatchObject({ status: 'works', where: 'config.properties:8' });
    expect(about(report, 'number_of_netty_threads')).toMatchObject({ status: 'differs' });
    expect(about(report, 'default_wrokers_per_model')?.message).toContain('did you mean default_workers_per_model?');
    expect(about(report, 'batch_size')?.message).toContain('batchSize is set for each model');
    expect(about(report, 'keystore_pass')?.subject).toBe('keystore_pass=***');
    expect(about(report, 'allowed_urls')?.notes).toEqual(['as before: allowed_urls=file://.*|http(s)?://.*']);
    expect(about(report, 'tokens')?.notes).toEqual(['as before: disable_token_authorization=false']);
    const open = all(report).find(({ subject, status }) => subject.startsWith('inference_address') && status === 'differs');
    expect(open?.message).toContain('other machines reach it without a token');
    expect(about(report, 'metrics_config')?.notes).toEqual(['there is no such path on this machine']);
    expect(about(report, 'metrics.yaml')?.notes).toEqual(['of the server: Requests2XX', 'of handlers: Digits']);
  });

  it('reads snapshots and the key file', async () => {
    mkdirSync(join(folder, 'site/logs/config'), { recursive: true });
    const cfg = (models: object) => `model_store=/x\nmodel_snapshot=${JSON.stringify({ name: 's', modelCount: 1, models })}\n`;
    const entry = (marName: string) => ({ '1.0': { defaultVersion: true, marName, minWorkers: 1, maxWorkers: 1 } });
    writeFileSync(join(folder, 'site/logs/config/20240101000000000-startup.cfg'), 'broken');
    writeFileSync(join(folder, 'site/logs/config/20240102000000000-shutdown.cfg'), cfg({ gone: entry('gone.mar') }));
    writeFileSync(
      join(folder, 'site/key_file.json'),
      JSON.stringify({ management: { key: 'abcdefgh' }, API: { key: 'ijklmnop' } }),
    );
    chmodSync(join(folder, 'site/key_file.json'), 0o644);
    const { stdout } = await check('--json');
    const report = JSON.parse(stdout) as Report;
    const snapshot = about(report, 'logs/config/20240102000000000-shutdown.cfg');
    expect(snapshot).toMatchObject({ status: 'work', notes: ['not in the model store: gone.mar'] });
    expect(snapshot?.message).toContain('restores gone=gone.mar');
    const keys = about(report, 'key_file.json');
    expect(keys?.message).toContain('keys for management, API');
    expect(keys?.notes.join()).toContain('chmod 600');
    expect(stdout).not.toMatch(/abcdefgh|ijklmnop/);
  });

  it('takes a snapshot of the real server for the settings when there is no other file', async () => {
    const name = '20261201034719338-startup.cfg';
    rmSync(join(folder, 'site/config.properties'));
    mkdirSync(join(folder, 'site/logs/config'), { recursive: true });
    cpSync(join(fixtures, name), join(folder, 'site/logs/config', name));
    const report = await reportOf();
    expect(about(report, 'job_queue_size')).toMatchObject({ status: 'works', subject: 'job_queue_size=50' });
    const snapshot = about(report, `logs/config/${name}`)!;
    expect(snapshot).toMatchObject({ status: 'works', message: 'restores echo_both=echo_both.mar', notes: [] });
    const [start = ''] = snapshot.steps.flatMap(({ commands }) => commands);
    expect(start).toBe(`onnxserve start --ts-config site/logs/config/${name} --model-store site/model-store`);
    const opened = await runCommand(['check', ...start.split(' ').slice(2)], folder);
    expect(opened.stdout).toContain('✓ echo_both.mar: model "echo_both" version 1.0');
    expect(opened.code).toBe(0);
  });

  it('ends with 0 when all works, with 1 when something cannot be read', async () => {
    for (const name of ['bert', 'detector', 'digits', 'echo', 'native', 'pickled', 'program', 'script', 'texts'])
      rmSync(join(folder, `site/model-store/${name}.mar`));
    rmSync(join(folder, 'site/wf-store/say.war'));
    writeFileSync(
      join(folder, 'site/config.properties'),
      'disable_token_authorization=true\nmodel_store=/home/model-server/model-store\n',
    );
    const good = await check();
    expect(good.stdout).toContain('→ 0 to be worked on   ✗ 0 cannot be read');
    expect(good.code).toBe(0);
    writeFileSync(
      join(folder, 'site/model-store/cut.mar'),
      readFileSync(join(fixtures, 'site/model-store/digits.mar')).subarray(0, 900),
    );
    const bad = await check();
    expect(bad.stdout).toMatch(/✗ cut\.mar: The archive "cut\.mar" cannot be used/);
    expect(bad.code).toBe(1);
    expect(await runCommand(['check', '--from-torchserve', 'nowhere'], folder)).toMatchObject({ code: 1, stdout: '' });
    expect((await runCommand(['check', '--json'], folder)).stderr).toContain('--from-torchserve');
  });

  it('does not let archives write to the terminal, the shell or the export script', async () => {
    const name = 'bad\u001b[2J$(touch gone)';
    await writeZip(join(folder, 'site/model-store/evil.mar'), {
      'MAR-INF/MANIFEST.json': manifest({
        modelName: 'evil',
        modelVersion: '1.0',
        handler: 'evil.py',
        serializedFile: 'w.pth',
        modelFile: `${name}.py`,
      }),
      'evil.py': 'class E(BaseHandler):\n    def preprocess(self, data): pass\n',
      'w.pth': Buffer.from('8002635f5f6275696c74696e5f5f0a6576616c0a2e', 'hex'),
      [`${name}.txt`]: '',
    });
    const { stdout } = await check();
    // eslint-disable-next-line no-control-regex
    expect(stdout.replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f]/);
    const evil = about(await reportOf(), 'evil.mar')!;
    expect(evil.steps.flatMap(({ commands }) => commands).join('\n')).toContain(`'${name}.txt=moved/evil/${name}.txt'`);
    expect(evil.steps.some(({ code }) => code !== undefined)).toBe(false);
    expect(evil.notes.join('\n')).toContain('cannot be imported');
  });
});

describe('--write', () => {
  it('makes projects whose printed commands give archives that are served', async () => {
    const report = await reportOf('--write', 'moved');
    const commands = ['echo.mar', 'say.war'].flatMap((subject) => about(report, subject)!.steps.flatMap((step) => step.commands));
    expect(commands).toHaveLength(2);
    for (const command of commands) {
      const { code, stderr } = await runCommand(command.split(' ').slice(1), folder);
      expect(stderr).toBe('');
      expect(code).toBe(0);
    }
    const [, copy = '', start = ''] = report.serve;
    for (const path of copy.split(' ').slice(2, -1))
      cpSync(join(folder, path), join(folder, 'moved/model-store', path.split('/').at(-1)!));
    expect(start).toBe(
      'onnxserve start --model-store moved/model-store --workflow-store moved/model-store --ts-config site/config.properties --set metrics_config=site/metrics.yaml',
    );
    const args = start.split(' ').slice(2);
    const opened = await runCommand(['check', ...args, '--models', 'all'], folder);
    expect(opened.stdout).toContain('✓ echo.mar: model "echo" version 1.0, a handler of its own');
    expect(opened.stdout).toContain('✓ onnx_picture.mar');
    expect(opened.code).toBe(0);
  });

  it('leaves alone what somebody has worked on', async () => {
    mkdirSync(join(folder, 'moved/echo'), { recursive: true });
    writeFileSync(join(folder, 'moved/echo/handler.ts'), 'mine');
    const report = await reportOf('--write', 'moved');
    expect(about(report, 'echo.mar')?.notes).toContain('echo/handler.ts is there already and was left alone');
    expect(readFileSync(join(folder, 'moved/echo/handler.ts'), 'utf8')).toBe('mine');
    expect(readFileSync(join(folder, 'moved/digits/net.py'), 'utf8')).toContain('class Net');
  });
});

describe('archives of torch-model-archiver', () => {
  let server: TestServer;
  let store: string;
  beforeAll(async () => {
    store = mkdtempSync(join(tmpdir(), 'onnxserve-formats-'));
    cpSync(join(fixtures, 'formats/default/both.mar'), join(store, 'default.mar'));
    cpSync(join(fixtures, 'formats/zip-store/both.mar'), join(store, 'stored.mar'));
    cpSync(join(fixtures, 'formats/tgz/both.tar.gz'), join(store, 'tgz.tar.gz'));
    cpSync(join(fixtures, 'formats/no-archive/both'), join(store, 'folder'), { recursive: true });
    const models = 'default=default.mar,stored=stored.mar,tgz=tgz.tar.gz,folder=folder';
    server = await startServer({ args: ['--model-store', store], config: { load_models: models } });
  });
  afterAll(async () => {
    await server.stop();
    rmSync(store, { recursive: true, force: true });
  });

  it.each(['default', 'stored', 'tgz', 'folder'])('are served: %s', async (name) => {
    const answer = await post(`${server.inference}/predictions/${name}`, 'seven b');
    expect(answer).toMatchObject({ status: 200, json: { echo: 7 } });
  });

  it('have the manifest that our archiver writes', async () => {
    const real = JSON.parse(readFileSync(join(fixtures, 'formats/no-archive/both/MAR-INF/MANIFEST.json'), 'utf8')) as {
      model: object;
    };
    writeFileSync(join(folder, 'handler.ts'), 'export default { handle: (batch: unknown[]) => batch };');
    const made = await runCommand(
      ['archive', '--model-name', 'both', '--version', '1.0', '--handler', 'handler.ts', '--archive-format', 'no-archive'],
      folder,
    );
    expect(made.code).toBe(0);
    const own = JSON.parse(readFileSync(join(folder, 'both/MAR-INF/MANIFEST.json'), 'utf8')) as { model: object };
    expect(Object.keys(own)).toEqual(Object.keys(real));
    expect(Object.keys(own.model)).toEqual(Object.keys(real.model));
    expect(Object.entries(own.model).map(([, value]) => typeof value)).toEqual(
      Object.entries(real.model).map(([, value]) => typeof value),
    );
  });
});
