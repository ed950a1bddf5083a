import { describe, expect, it } from 'vitest';
import { jsonOf, open } from '../../test-support/listeners.js';

const call = (base: string, method: string, path: string, body?: string, type = 'application/json') =>
  fetch(base + path, { method, ...(body === undefined ? {} : { body, headers: { 'content-type': type } }) });

describe('registration', () => {
  it('takes its options from the query', async () => {
    const { at, management } = await open();
    const query =
      'url=noop.mar&url=other.mar&model_name=a%20b&handler=h.js&runtime=python3&batch_size=3&max_batch_delay=0' +
      '&response_timeout=-1&startup_timeout=22&initial_workers=2&synchronous=TRUE&s3_sse_kms=false';
    const answer = await call(at.management, 'POST', `/models?${query}`);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ status: 'Registered the model.' });
    expect(management.calls).toEqual([
      [
        'register',
        {
          url: 'noop.mar',
          modelName: 'a b',
          handler: 'h.js',
          runtime: 'python3',
          batchSize: 3,
          maxBatchDelay: 0,
          initialWorkers: 2,
          synchronous: true,
          startupTimeout: 22,
        },
      ],
    ]);
  });

  it('takes them from a JSON body, which beats the query, numbers as text too', async () => {
    const { at, management } = await open();
    const body = JSON.stringify({ url: 'noop.mar', batch_size: '4', max_batch_delay: 50, model_name: '', synchronous: false });
    const answer = await call(at.management, 'POST', '/models?url=kit.mar&model_name=q', body);
    expect(answer.status).toBe(202);
    expect(management.calls).toEqual([['register', { url: 'noop.mar', batchSize: 4, maxBatchDelay: 50, synchronous: false }]]);
  });

  it.each([
    ['no url', '/models', undefined, 400, 'url'],
    ['an empty url', '/models?url=', undefined, 404, 'url'],
    ['a form', '/models', 'url=noop.mar', 400, 'url'],
    ['a batch size of 0', '/models?url=a&batch_size=0', undefined, 400, 'batch_size=0'],
    ['a batch size that is no number', '/models?url=a&batch_size=abc', undefined, 400, 'batch_size="abc"'],
    ['a fraction', '/models?url=a&startup_timeout=1.5', undefined, 400, 'startup_timeout'],
    ['a negative delay', '/models?url=a&max_batch_delay=-7', undefined, 400, 'max_batch_delay=-7'],
    ['too many workers', '/models?url=a&initial_workers=65', undefined, 400, 'max_workers_limit'],
    ['a flag that is none', '/models?url=a&synchronous=1', undefined, 400, 'synchronous=1'],
  ])('with %s is refused by name', async (_what, path, form, status, named) => {
    const { at, management } = await open();
    const answer = await call(at.management, 'POST', path, form, 'application/x-www-form-urlencoded');
    expect(answer.status).toBe(status);
    expect((await jsonOf(answer)).message).toContain(named);
    expect(management.calls).toEqual([]);
  });

  it.each(['{bad', '[]', '5', '{}', '{"url": 5}', '{"url": "a", "batch_size": "abc"}', '{"url": "a", "batch_size": 1.5}'])(
    'with the body %s is 400',
    async (body) => {
      const { at } = await open();
      expect((await call(at.management, 'POST', '/models', body)).status).toBe(400);
    },
  );

  it('is 405 while the model API is off, scaling is not', async () => {
    const { at } = await open({ enableModelApi: false });
    expect((await call(at.management, 'POST', '/models?url=a')).status).toBe(405);
    const refused = await call(at.management, 'DELETE', '/models/kit');
    expect(refused.status).toBe(405);
    expect((await jsonOf(refused)).message).toContain('enable_model_api');
    expect((await call(at.management, 'PUT', '/models/kit?min_worker=1')).status).toBe(202);
    expect((await call(at.management, 'PUT', '/models/kit/1.0/set-default')).status).toBe(200);
  });
});

describe('scaling', () => {
  it.each([
    ['min_worker=2', { minWorkers: 2, maxWorkers: 2, synchronous: false }, 202],
    ['max_worker=3&synchronous=true', { minWorkers: 1, maxWorkers: 3, synchronous: true }, 200],
    ['min_worker=&max_worker=&number_gpu=4&timeout=x', { minWorkers: 1, maxWorkers: 1, synchronous: false }, 202],
    ['min_worker=0&max_worker=64', { minWorkers: 0, maxWorkers: 64, synchronous: false }, 202],
  ])('by %s', async (query, options, status) => {
    const { at, management } = await open();
    expect((await call(at.management, 'PUT', `/models/kit/1.0?${query}`)).status).toBe(status);
    expect(management.calls).toEqual([['scale', 'kit', '1.0', options]]);
  });

  it.each([
    ['min_worker=3&max_worker=1', 'min_worker=3 is above max_worker=1'],
    ['min_worker=-1', 'min_worker=-1 is below the least value, 0'],
    ['min_worker=abc', 'min_worker="abc" is not an integer'],
    ['min_worker=1e3', 'not an integer'],
    ['min_worker=100000', 'limit of 64 workers; raise max_workers_limit'],
    ['max_worker=0', 'min_worker=1 is above max_worker=0'],
  ])('by %s is refused', async (query, message) => {
    const { at, management } = await open();
    const answer = await call(at.management, 'PUT', `/models/kit?${query}`);
    expect(answer.status).toBe(400);
    expect((await jsonOf(answer)).message).toContain(message);
    expect(management.calls).toEqual([]);
  });
});

describe('models', () => {
  it('are listed in pages', async () => {
    const { at, management } = await open();
    for (const path of ['/models', '/models/', '/models?limit=2&next_page_token=4', '/models?limit=1000']) {
      expect((await call(at.management, 'GET', path)).status).toBe(200);
    }
    expect(management.calls).toEqual([
      ['list', 100, 0],
      ['list', 100, 0],
      ['list', 2, 4],
      ['list', 100, 0],
    ]);
    for (const query of ['limit=0', 'limit=abc', 'next_page_token=-3']) {
      expect((await call(at.management, 'GET', `/models?${query}`)).status).toBe(400);
    }
  });

  it('are described, by version too, with and without what the handler adds', async () => {
    const { at, management } = await open();
    await call(at.management, 'GET', '/models/kit');
    await call(at.management, 'GET', '/models/kit/all?customized=true');
    await call(at.management, 'DELETE', '/models/kit/2024-03-20-18%3A11');
    expect(management.calls).toEqual([
      ['describe', 'kit', undefined, false],
      ['describe', 'kit', 'all', true],
      ['unregister', 'kit', '2024-03-20-18:11'],
    ]);
    expect(await (await call(at.management, 'GET', '/models/nope')).json()).toMatchObject({ type: 'ModelNotFoundException' });
  });

  it.each([
    ['PATCH', '/models/kit', 'GET, PUT, DELETE, OPTIONS'],
    ['POST', '/models/kit', 'GET, PUT, DELETE, OPTIONS'],
    ['PUT', '/models', 'GET, POST'],
    ['OPTIONS', '/models', 'GET, POST'],
    ['POST', '/models/kit/1.0/set-default', 'PUT'],
    ['PUT', '/workflows', 'GET, POST'],
    ['PUT', '/workflows/nope', 'GET, DELETE'],
    ['GET', '/', 'OPTIONS'],
  ])('%s %s is not allowed and says what is', async (method, path, allow) => {
    const { at } = await open();
    const answer = await call(at.management, method, path);
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe(allow);
    expect(await answer.json()).toMatchObject({ type: 'MethodNotAllowedException' });
  });

  it('tell KServe whether they are ready', async () => {
    const { at } = await open();
    for (const base of [at.inference, at.management]) {
      expect(await (await call(base, 'GET', '/v1/models/kit')).json()).toEqual({ name: 'kit', ready: true });
    }
    expect(await (await call(at.inference, 'GET', '/v1/models')).json()).toEqual({ models: ['inspect', 'kit'] });
  });

  it('are no workflows', async () => {
    const { at } = await open();
    expect(await (await call(at.management, 'GET', '/workflows')).json()).toEqual({ workflows: [] });
    for (const [method, path] of [
      ['POST', '/workflows?url=a.war'],
      ['GET', '/workflows/nope'],
      ['DELETE', '/workflows/nope'],
    ] as const) {
      const answer = await call(at.management, method, path);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ type: 'WorkflowNotFoundException' });
    }
    expect((await call(at.inference, 'POST', '/WFPredict/nope', '{}')).status).toBe(404);
  });
});
