import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archiveWorkflow } from '@onnxserve/archiver';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, messageOf, metric, post, send } from '../helpers/client.js';
import { startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

/** Adds its tag; does as it is told by certain texts. */
const node = `
let failures = 0;
export default {
  load: (ctx) => ({ tag: ctx.model.config.tag }),
  async preprocess(request, ctx) {
    const text = request.text();
    if (text.includes('refuse-' + ctx.state.tag)) {
      const { PredictionError } = await import('@onnxserve/handler-kit');
      throw new PredictionError('cannot take it', 422);
    }
    if (text.includes('once-' + ctx.state.tag) && failures++ === 0) throw new Error('not the first time');
    if (text.includes('hang-' + ctx.state.tag)) { console.log('hangs'); await new Promise((_, no) => request.signal.addEventListener('abort', () => { console.log('let go'); no(new Error('aborted')); })); }
    if (text.includes('tarry')) await new Promise((done) => setTimeout(done, 30));
    if (text.includes('die-' + ctx.state.tag)) process.exit(1);
    return text;
  },
  postprocess: (text, ctx) => ctx.state.tag + '(' + text + ')',
};`;
const functions = `
import { workflowFunction } from '@onnxserve/handler-kit';
export const begin = workflowFunction((request) => request.text());
export const join = workflowFunction((request) => request.parts().map(({ name, data }) => name + '=' + Buffer.from(data)).join(' '));
`;

let server: TestServer;
let folder: string;

async function war(name: string, spec: string, handler: string | undefined = functions): Promise<void> {
  await writeFile(join(folder, `${name}.yaml`), spec);
  if (handler !== '') await writeFile(join(folder, `${name}.ts`), handler);
  await archiveWorkflow({
    workflowName: name,
    specFile: join(folder, `${name}.yaml`),
    ...(handler === '' ? {} : { handler: join(folder, `${name}.ts`) }),
    exportPath: join(folder, 'store'),
  });
}
const register = (name: string, more = '') => send('POST', `${server.management}/workflows?url=${name}.war${more}`);
const run = (name: string, text: string) => post(`${server.inference}/wfpredict/${name}`, text);
const models = async () =>
  ((await get(`${server.management}/models`)).json as { models: Array<{ modelName: string }> }).models.map((it) => it.modelName);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'workflows-'));
  await import('node:fs/promises').then(({ mkdir, symlink }) =>
    Promise.all([mkdir(join(folder, 'store')), symlink(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'))]),
  );
  server = await startServer({ config: { workflow_store: join(folder, 'store') } });
  for (const tag of ['a', 'b']) await server.addModel(tag, { handlerSource: node, config: { tag } });
  await war(
    'both',
    `models: {timeout-ms: 20000, retry-attempts: 1, a: {url: a.mar}, b: {url: b.mar}}
dag: {begin: [a, b], a: [join], b: [join]}`,
  );
  await war('leaves', 'models: {a: {url: a.mar}, b: {url: b.mar, timeout-ms: 300, retry-attempts: 0}}\ndag: {begin: [a, b]}');
  expect(await register('both')).toMatchObject({ status: 200 });
  expect(await register('leaves')).toMatchObject({ status: 200 });
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

describe('a workflow over HTTP', () => {
  it('joins its branches', async () => {
    const answer = await run('both', 'x');
    expect(answer).toMatchObject({ status: 200, text: 'a=a(x) b=b(x)' });
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect((await run('leaves', 'x')).json).toEqual({ a: 'a(x)', b: 'b(x)' });
  });

  it("keeps a node's 4xx and names the node, and the others are not disturbed", async () => {
    const [refused, fine] = await Promise.all([run('both', 'refuse-b'), run('both', 'y')]);
    expect(refused.status).toBe(422);
    expect(messageOf(refused)).toBe('Error executing b: cannot take it');
    expect(fine.text).toBe('a=a(y) b=b(y)');
  });

  it('tries a node again, and gets over a worker that dies', async () => {
    expect(await run('both', 'once-a')).toMatchObject({ status: 200, text: 'a=a(once-a) b=b(once-a)' });
  });

  it('answers 504 with the setting when a node takes too long, and lets its work go', async () => {
    const answer = await run('leaves', 'hang-b');
    expect(answer.status).toBe(504);
    expect(messageOf(answer)).toMatch(/^Error executing b: .*300 ms \(timeout-ms\)/);
    await until(async () => server.logs().includes('let go') || undefined, 'the handler hears that nobody waits');
  });

  it('ends every branch when the client leaves', async () => {
    const before = server.logs().split('let go').length;
    const stop = new AbortController();
    const request = fetch(`${server.inference}/wfpredict/both`, { method: 'POST', body: 'hang-a hang-b', signal: stop.signal });
    await until(async () => server.logs().split('hangs').length >= 3 || undefined, 'both branches run');
    stop.abort();
    await expect(request).rejects.toThrow();
    await until(async () => server.logs().split('let go').length >= before + 2 || undefined, 'both handlers hear of it');
  });

  it('answers 500 with the node when its worker dies again and again', async () => {
    const answer = await run('leaves', 'die-a');
    expect(answer.status).toBe(500);
    expect(messageOf(answer)).toMatch(/^Error executing a: /);
    await server.untilReady('leaves__a');
  });

  it('is 404 when it does not exist, whatever the case of the path', async () => {
    expect(await run('nothing', 'x')).toMatchObject({ status: 404, json: { type: 'WorkflowNotFoundException' } });
    expect((await post(`${server.inference}/WFPredict/both/extra`, 'x')).text).toBe('a=a(x) b=b(x)');
  });
});

describe('workflows over the management API', () => {
  it('are described, and their nodes are models that cannot be removed alone', async () => {
    expect((await get(`${server.management}/workflows/both`)).json).toMatchObject([
      {
        workflowName: 'both',
        workflowDag: '{begin=[a, b], a=[join], b=[join]}',
        nodes: { a: { kind: 'model', modelName: 'both__a' } },
      },
    ]);
    expect(await models()).toEqual(['both__a', 'both__b', 'leaves__a', 'leaves__b']);
    expect((await get(`${server.management}/models/both__join`)).status).toBe(200);
    const removal = await send('DELETE', `${server.management}/models/both__a`);
    expect(removal.status).toBe(409);
    expect(messageOf(removal)).toContain('DELETE /workflows/both');
    expect(await metric(server.metrics, 'onnxserve_requests_total', { model: 'both__a' })).toBeGreaterThan(0);
  });

  it.each([
    ['cycle', 'dag: {begin: [a], a: [b], b: [a]}', 400, 'InvalidDAGException', /cycle through a, b/],
    ['lost', 'models: {a: {url: nowhere.mar}}\ndag: {begin: [a]}', 404, 'ModelNotFoundException', /Node a .*nowhere\.mar/],
    ['typo', 'models: {a: {url: a.mar, batchsize: 2}}\ndag: {begin: [a]}', 400, 'InvalidWorkflowException', /batchsize/],
  ])('a registration that fails leaves nothing behind: %s', async (name, spec, status, type, message) => {
    // The archiver would refuse most of them.
    const { writeZip } = await import('../conformance/lib/archives.mjs');
    await writeZip(join(folder, 'store', `${name}.war`), {
      'spec.yaml': spec,
      'functions.js': 'export const begin = (request) => request.text();',
      'WAR-INF/MANIFEST.json': JSON.stringify({
        workflow: { workflowName: name, specFile: 'spec.yaml', handler: 'functions.js' },
      }),
    });
    const answer = await register(name);
    expect(answer).toMatchObject({ status, json: { type } });
    expect(messageOf(answer)).toMatch(message);
    expect((await get(`${server.management}/workflows/${name}`)).status).toBe(404);
    expect((await models()).filter((model) => model.startsWith(name))).toEqual([]);
  });

  it('a function that the file does not export is named', async () => {
    const { writeZip } = await import('../conformance/lib/archives.mjs');
    await writeZip(join(folder, 'store', 'nofunction.war'), {
      'spec.yaml': 'dag: {begin: [end]}',
      'functions.js': 'export const begin = (request) => request.text();',
      'WAR-INF/MANIFEST.json': JSON.stringify({
        workflow: { workflowName: 'nofunction', specFile: 'spec.yaml', handler: 'functions.js' },
      }),
    });
    const answer = await register('nofunction');
    expect(messageOf(answer)).toContain('functions.js exports no "end"');
    expect((await get(`${server.management}/models/nofunction__begin`)).status).toBe(404);
  });

  it('are removed with their nodes after what runs, and can come again', async () => {
    expect(await register('both', '&workflow_name=again')).toMatchObject({ status: 200 });
    const running = Promise.all(Array.from({ length: 8 }, (_, i) => run('again', String(i))));
    const removal = await send('DELETE', `${server.management}/workflows/again`);
    expect(removal.status).toBe(200);
    for (const [i, { status, text }] of (await running).entries()) {
      if (status === 200) expect(text).toBe(`a=a(${i}) b=b(${i})`);
      else expect(status).toBe(404);
    }
    expect((await get(`${server.management}/models/again__a`)).status).toBe(404);
    expect(await register('both', '&workflow_name=again')).toMatchObject({ status: 200 });
    expect(await register('both', '&workflow_name=again')).toMatchObject({ status: 409 });
    expect(await readdir(join(folder, 'store'))).toContain('both.war');
  });

  it('say that they are on their way out while they finish what runs', async () => {
    expect(await register('both', '&workflow_name=leaving')).toMatchObject({ status: 200 });
    const seen = server.logs().split('hangs').length;
    const left = new AbortController();
    const running = fetch(`${server.inference}/wfpredict/leaving`, { method: 'POST', body: 'hang-a', signal: left.signal });
    await until(async () => (server.logs().split('hangs').length > seen ? true : undefined), 'the node that hangs');
    const removal = send('DELETE', `${server.management}/workflows/leaving`);
    await until(async () => ((await run('leaving', 'x')).status === 404 ? true : undefined), 'the removal');
    const again = await register('both', '&workflow_name=leaving');
    expect(again.status).toBe(409);
    expect(messageOf(again)).toContain('is being unregistered');
    left.abort();
    await expect(running).rejects.toThrow('aborted');
    expect(await removal).toMatchObject({ status: 200 });
  });

  it('begin few nodes of a large graph before the first that cannot be', async () => {
    const others = Array.from({ length: 30 }, (_, i) => `f${i}`);
    await war(
      'large',
      `models: {gone: {url: gone.mar}}\ndag: {begin: [gone, ${others.join(', ')}]}`,
      [functions, ...others.map((name) => `export const ${name} = begin;`)].join('\n'),
    );
    const answer = await register('large');
    expect(answer.status).toBe(404);
    expect(messageOf(answer)).toContain('Node gone of workflow');
    const begun = new Set(server.logs().match(/large__f\d+/g));
    expect(begun.size).toBeLessThan(10);
    expect((await get(`${server.management}/models/large__begin`)).status).toBe(404);
  });
});

it('a server that stops finishes the workflows it has accepted', async () => {
  const own = await startServer({ config: { workflow_store: join(folder, 'store') } });
  for (const tag of ['a', 'b']) await own.addModel(tag, { handlerSource: node, config: { tag } });
  await send('POST', `${own.management}/workflows?url=both.war`);
  const running = Array.from({ length: 20 }, (_, i) => post(`${own.inference}/wfpredict/both`, `tarry ${i}`));
  const begun = () => metric(own.metrics, 'onnxserve_batch_size_sum', { model: 'both__begin' });
  await until(async () => ((await begun()) === 20 ? true : undefined), 'all to be accepted');
  const stopped = own.stop();
  for (const [i, { status, text }] of (await Promise.all(running)).entries()) {
    expect(status).toBe(200);
    expect(text).toBe(`a=a(tarry ${i}) b=b(tarry ${i})`);
  }
  expect(await stopped).toBe(0);
});

it('without the model API workflows are served and described, neither registered nor removed', async () => {
  const own = await startServer({ config: { workflow_store: join(folder, 'store'), enable_model_api: false } });
  const call = (method: string, path: string) => send(method, `${own.management}${path}`);
  expect(await call('POST', '/workflows?url=both.war')).toMatchObject({
    status: 405,
    json: { type: 'MethodNotAllowedException' },
  });
  expect((await call('POST', '/workflows?url=http://127.0.0.1:1/both.war')).status).toBe(405);
  expect((await call('POST', '/workflows?url=nowhere.war')).status).toBe(404);
  expect((await call('DELETE', '/workflows/both')).status).toBe(404);
  expect((await call('GET', '/workflows')).json).toEqual({ workflows: [] });
  await own.stop();
});
