import { describe, expect, it } from 'vitest';
import { WorkflowSpecError, parseWorkflowSpec } from './spec.js';

const parse = (text: string) => parseWorkflowSpec(text, 'w.yaml');
const dog = `
models:
  min-workers: 1
  max-workers: 4
  batch-size: 3
  max-batch-delay: 5000
  retry-attempts: 2
  timeout-ms: 5000
  cat_dog:
    url: cat_dog.mar
    batch-size: 8
    timeout-ms: 100
  breed:
    url: https://example.org/breed.mar
dag:
  pre: [cat_dog]
  cat_dog: [breed, other]
  breed: [join]
  other: join
`;

describe('a workflow spec', () => {
  it.each(['dag: &a {b: *a}', 'models: &a\n  b: *a\n', '&a [*a]'])('refuses what contains itself: %s', (text) =>
    expect(() => parse(text)).toThrow(WorkflowSpecError),
  );

  it('gives nodes in running order with their own settings, functions among them', () => {
    const { nodes, upstream, leaves, settings } = parse(dog);
    expect(nodes.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
      'pre function',
      'cat_dog model',
      'breed model',
      'other function',
      'join function',
    ]);
    expect(settings).toEqual({
      minWorkers: 1,
      maxWorkers: 4,
      batchSize: 3,
      maxBatchDelay: 5000,
      retryAttempts: 2,
      timeoutMs: 5000,
    });
    expect(nodes[1]).toMatchObject({ url: 'cat_dog.mar', settings: { batchSize: 8, timeoutMs: 100, retryAttempts: 2 } });
    expect(nodes[0]?.settings).toEqual({ ...settings, maxBatchDelay: 0 });
    expect(upstream.get('join')).toEqual(['breed', 'other']);
    expect(upstream.get('pre')).toEqual([]);
    expect(leaves).toEqual(['join']);
  });

  it('has the defaults of TorchServe', () => {
    expect(parse('dag: {a: []}').settings).toEqual({
      minWorkers: 1,
      maxWorkers: 1,
      batchSize: 1,
      maxBatchDelay: 50,
      retryAttempts: 1,
      timeoutMs: 10_000,
    });
  });

  it('has nodes of any name that JavaScript knows already', () => {
    const { nodes } = parse('models: {constructor: {url: c.mar}}\ndag: {toString: [constructor], constructor: [__proto__]}');
    expect(nodes.map(({ kind }) => kind)).toEqual(['function', 'model', 'function']);
    expect(() => parse('models: {a: {url: a.mar, constructor: 1}}\ndag: {a: []}')).toThrow('the key "constructor" is unknown');
  });

  it.each([
    ['dag: {a: [then]}', 'dag', expect.stringContaining('no function can be named "then"')],
    [
      `dag:\n  a: &a [x, x, x, x, x]\n  b: &b [*a, *a, *a, *a, *a]\n  c: &c [*b, *b, *b, *b, *b]\n  d: [*c, *c, *c, *c, *c]`,
      'file',
      expect.stringContaining('Excessive alias count'),
    ],
    ['dag: {}', 'dag', 'w.yaml: the dag has no nodes'],
    ['dag: {a: [b], b: [c], c: [b]}', 'dag', 'w.yaml: the dag has a cycle through b, c'],
    ['dag: {a: [a]}', 'dag', 'w.yaml: the dag has a cycle through a'],
    ['dag: {a: [c], b: [c]}', 'dag', 'w.yaml: requests can begin at one node only, and nothing leads to a, b'],
    ['dag: {a: [b, b]}', 'dag', 'w.yaml: dag.a names a follower twice'],
    ['dag: {"../a": [b]}', 'dag', expect.stringContaining('"../a" is no name of a node')],
    ['models: {x: {url: x.mar}}\ndag: {a: []}', 'dag', 'w.yaml: the model "x" is no node of the dag'],
    ['models: {x: {}}\ndag: {x: []}', 'file', 'w.yaml: models.x has no url, the archive that the node runs'],
    ['models: {x: {url: a, batchsize: 2}}\ndag: {x: []}', 'file', expect.stringContaining('the key "batchsize" is unknown')],
    [
      'models: {timeout-ms: 0}\ndag: {x: []}',
      'file',
      'w.yaml: models.timeout-ms is 0; it must be a whole number from 1 to 2147483647',
    ],
    ['models: {min-workers: 3, max-workers: 2}\ndag: {x: []}', 'file', 'w.yaml: models: min-workers 3 is above max-workers 2'],
    ['model: {}\ndag: {x: []}', 'file', 'w.yaml: the key "model" is unknown; there are models and dag'],
    ['models: [\n', 'file', expect.stringMatching(/^w\.yaml:\d+: no valid YAML/)],
    ['- a', 'file', 'w.yaml must hold "models:" and "dag:"'],
  ])('is refused: %s', (text, part, message) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ name: 'WorkflowSpecError', part, message }));
  });
});
