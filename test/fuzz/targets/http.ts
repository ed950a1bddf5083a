import type { Bench } from '../bench.js';
import { framing, path, query, request } from '../http-grammar.js';
import type { Random } from '../random.js';
import { outcome, talkHttp } from '../talk.js';
import { type Target, Violation } from '../target.js';
import { words } from '../boundaries.js';
import { json, object } from '../values.js';

/** Which of the three listeners depends on the bytes alone, so that a case is the same when it is played again. */
function listenerOf(bytes: Buffer, { open }: Bench): string {
  return [open.inference, open.management, open.metrics][bytes.length % 3] ?? open.inference;
}

const httpFraming: Target = {
  name: 'http-framing',
  kind: 'wire',
  share: 2,
  make: framing,
  play: async (bytes, bench) =>
    outcome(await talkHttp(listenerOf(bytes, bench), bytes, { mustAnswer: false, halfClose: bytes.length % 5 !== 0 })),
};

const pathNames = ['url', 'limit', 'next_page_token', 'customized', 'name[]', 'data', 'type', 'level', 'url', 'deadline', 'a'];
const paths: Target = {
  name: 'paths',
  kind: 'wire',
  // Nothing that removes or scales a model that is needed.
  make: (random) => request(random.pick(['GET', 'GET', 'POST', 'HEAD', 'OPTIONS', 'PATCH']), path(random, pathNames)),
  play: async (bytes, bench) => outcome(await talkHttp(listenerOf(bytes, bench), bytes, { mustAnswer: false })),
};

const parameters = [
  'url',
  'model_name',
  'handler',
  'runtime',
  'batch_size',
  'max_batch_delay',
  'response_timeout',
  'startup_timeout',
  'initial_workers',
  'synchronous',
  'min_worker',
  'max_worker',
  'number_gpu',
  'timeout',
  'limit',
  'next_page_token',
  'customized',
  'batchsize',
  'min_workers',
];
const register = (random: Random) =>
  object(random, [
    [
      'url',
      random.pick([
        '"victim.mar"',
        '"../victim.mar"',
        '"http://127.0.0.1:1/a.mar"',
        '"file:///etc/passwd"',
        '"s3://a/b"',
        '"/etc/passwd"',
      ]),
    ],
    ['model_name', '"victim"'],
    ...parameters
      .slice(2, 10)
      .filter(() => random.chance(0.4))
      .map((name) => [name, json(random, 1)] as const),
    // As long as a body may be.
    ...(random.chance(0.02) ? [['x'.repeat(900_000), '1'] as const] : []),
  ]);
const management: Target = {
  name: 'management',
  kind: 'wire',
  seeds: [
    request('POST', '/models?url=victim.mar&initial_workers=0'),
    request('PUT', '/models/victim?min_worker=0&max_worker=1'),
    request('PUT', '/models/victim/1.0/set-default'),
    request('GET', '/models/victim/all?customized=true'),
    request('GET', '/models?limit=1&next_page_token=1'),
    request('DELETE', '/models/victim/1.0'),
    request('GET', '/logging'),
  ],
  make(random) {
    const rest = query(random, parameters);
    return random.pick([
      () => request('POST', '/models', [['Content-Type', 'application/json']], register(random)),
      () =>
        request(
          'POST',
          `/models${rest}${rest.includes('?') ? '&' : '?'}url=${random.pick(['victim.mar', 'victim.mar', 'nobody.mar', '..', 'http://127.0.0.1:1/x.mar'])}`,
        ),
      () => request('PUT', `/models/victim${random.pick(['', '/1.0', '/2.0', '/all'])}${rest}`),
      () => request('GET', `/models/victim${random.pick(['', '/1.0', '/all', '/set-default'])}${rest}`),
      () => request('DELETE', `/models/victim${random.pick(['', '/1.0', '/9', '/all'])}${rest}`),
      () => request('PUT', `/models/victim/${encodeURIComponent(random.pick(words).slice(0, 99))}/set-default`),
      () => request('GET', `/models${rest}`),
      () => request('POST', `/workflows${rest}`),
      () => request('GET', `/logging${rest}`),
    ])();
  },
  play: async (bytes, { open }) => outcome(await talkHttp(open.management, bytes, { mustAnswer: false })),
};

const secret = 'what-only-friends-see';
const tokens: Target = {
  name: 'tokens',
  kind: 'wire',
  make(random) {
    const scheme = random.pick(['Bearer ', 'Bearer ', 'bearer ', 'Bearer', 'Basic ', 'Bearer  ', 'Bearer\t', '', 'Digest ']);
    const token = random.pick([
      () =>
        random
          .pick(words)
          .replaceAll(/[^\x20-\xff]/g, '')
          .slice(0, 5000),
      () => random.bytes(random.int(1, 40)).toString('base64'),
      () =>
        random
          .bytes(20)
          .toString('latin1')
          .replaceAll(/[^\x20-\xff]/g, ''),
      () => 'x'.repeat(random.int(1, 20_000)),
      () => 'the-token-of-the-management-api',
    ])();
    const headers = Array.from(
      { length: random.pick([0, 1, 1, 1, 2]) },
      () =>
        [random.pick(['Authorization', 'authorization', 'Proxy-Authorization', 'Cookie', 'Token']), `${scheme}${token}`] as const,
    );
    const where = random.pick([
      '/predictions/echo',
      '/predictions/echo',
      '/v1/models/echo:predict',
      '//predictions/echo',
      '/models/echo/invoke',
      '/ping/../predictions/echo',
    ]);
    return request('POST', where, [['Content-Type', 'application/json'], ...headers], JSON.stringify(secret));
  },
  async play(bytes, { closed, token }) {
    const answers = await talkHttp(closed.inference, bytes, { mustAnswer: false });
    if (!bytes.includes(token) && answers.some(({ status, body }) => status < 300 && body.includes(secret)))
      throw new Violation('a prediction without the token');
    return outcome(answers);
  },
};

export const httpTargets: readonly Target[] = [httpFraming, paths, management, tokens];
