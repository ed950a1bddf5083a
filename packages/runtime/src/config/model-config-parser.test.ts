import { describe, expect, it } from 'vitest';
import { parseModelConfig } from './model-config-parser.js';

const parse = (text: string, name = 'digits') => parseModelConfig(text, 'model-config.yaml', name);

describe('parseModelConfig', () => {
  it.each(['minWorkers: &a [*a]', 'onnx:\n  intraOpNumThreads: &a [*a]', 'free: &a {b: *a}'])(
    'cannot read what contains itself: %j',
    (text) => {
      const { config, problems } = parse(text);
      expect(config).toEqual({ onnx: {}, free: {} });
      expect(problems).toEqual([expect.objectContaining({ message: expect.stringContaining('alias') })]);
    },
  );

  it('reads every setting', () => {
    const settings = {
      minWorkers: 1,
      maxWorkers: 3,
      batchSize: 4,
      maxBatchDelay: 400,
      responseTimeout: 33,
      startupTimeout: 44,
      maxRetryTimeoutInSec: 3,
      clientTimeoutInMills: 500,
      jobQueueSize: 2,
      useJobTicket: true,
      deviceType: 'gpu',
      deviceIds: [0, 2],
      continuousBatching: true,
      sequenceBatching: true,
      sequenceMaxIdleMSec: 2000,
      sequenceTimeoutMSec: 5000,
      maxNumSequence: 2,
      maxSequenceJobQueueSize: 2,
      handler: 'image_classifier',
      rerunOnWorkerDeath: false,
    };
    const text = Object.entries(settings).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
    expect(parse(text.join(''))).toEqual({ config: { ...settings, onnx: {}, free: {} }, problems: [] });
  });

  it('gives every other key to the handler', () => {
    const { config, problems } = parse('labels: [a, b]\nkit:\n  mode: x\nflag: yes\nday: 2020-01-02\n');
    expect(config.free).toEqual({ labels: ['a', 'b'], kit: { mode: 'x' }, flag: true, day: '2020-01-02' });
    expect(problems).toEqual([]);
  });

  it.each([
    ['batchSize: four', 'batchSize', '"four"'],
    ['batchSize: 1.5', 'batchSize', '1.5'],
    ['maxBatchDelay: -1', 'maxBatchDelay', '-1'],
    ['responseTimeout: -5', 'responseTimeout', '-5'],
    ['responseTimeout: 99999999', 'responseTimeout', '2147483'],
    ['useJobTicket: 3', 'useJobTicket', 'true or false'],
    ['deviceType: 3', 'deviceType', 'cpu or gpu'],
    ['deviceIds: gpu0', 'deviceIds', 'list'],
    ['handler: []', 'handler', 'text'],
  ])('%s is a warning that keeps the default', (line, key, part) => {
    const { config, problems } = parse(`# first\n${line}\n`);
    expect(config).toEqual({ onnx: {}, free: {} });
    expect(problems).toMatchObject([
      { severity: 'warning', key, where: 'model-config.yaml:2', message: expect.stringContaining(part) },
    ]);
  });

  it('takes 0 of a timeout or queue as not set', () => {
    expect(parse('responseTimeout: 0\nstartupTimeout: 0\njobQueueSize: 0\n')).toEqual({
      config: { onnx: {}, free: {} },
      problems: [],
    });
  });

  it.each([
    ['batchSize: 0\n', { batchSize: 1 }, 1],
    ['minWorkers: 0\nmaxWorkers: 2\n', { minWorkers: 1, maxWorkers: 2 }, 1],
    ['minWorkers: 2\n', { minWorkers: 2, maxWorkers: 2 }, 0],
    ['minWorkers: 3\nmaxWorkers: 2\n', {}, 1],
    ['maxWorkers: 2\n', {}, 1],
    ['maxBatchDelay: 0\n', { maxBatchDelay: 0 }, 0],
  ])('clamps %j', (text, expected, warnings) => {
    const { config, problems } = parse(text);
    expect(config).toEqual({ ...expected, onnx: {}, free: {} });
    expect(problems).toHaveLength(warnings);
  });

  it.each([
    ['min_workers', 'minWorkers'],
    ['minworkers', 'minWorkers'],
    ['batch_size', 'batchSize'],
    ['maxBatchDely', 'maxBatchDelay'],
  ])('names the setting that %s nearly is, and passes it to the handler', (key, meant) => {
    const { config, problems } = parse(`${key}: 3\n`);
    expect(config.free).toEqual({ [key]: 3 });
    expect(problems).toMatchObject([{ severity: 'warning', key, message: expect.stringContaining(`did you mean ${meant}?`) }]);
  });

  it('refuses an unknown device, since the CPU would be used in silence', () => {
    expect(parse('deviceType: cuda\n').problems).toMatchObject([{ severity: 'error', key: 'deviceType' }]);
  });

  it('accepts what has no meaning here', () => {
    const { config, problems } = parse('parallelType: pp\nparallelLevel: 2\nuseVenv: true\ntorchrun:\n  nproc-per-node: 2\n');
    expect(config).toMatchObject({ parallelType: 'pp', parallelLevel: 2, useVenv: true });
    expect(new Set(problems.map(({ severity }) => severity))).toEqual(new Set(['info']));
  });

  it.each(['a: [\n', '- a\n', 'just text\n', 'a: 1\n---\nb: 2\n', 'a: *missing\n', '\tminWorkers: 1\n'])(
    'counts %j as empty, with a warning',
    (text) => {
      const { config, problems } = parse(text);
      expect(config).toEqual({ onnx: {}, free: {} });
      expect(problems).toMatchObject([{ severity: 'warning', message: expect.stringContaining('counts as empty') }]);
    },
  );

  it('does not follow an alias bomb', () => {
    const lines = Array.from({ length: 12 }, (_, n) => `k${n + 1}: &k${n + 1} [${Array(9).fill(`*k${n}`).join(', ')}]`);
    expect(parse(['k0: &k0 [x]', ...lines].join('\n')).problems).toMatchObject([{ severity: 'warning' }]);
  });

  it.each(['', '\n', '# nothing\n', 'null\n', '{}\n'])('takes %j as empty', (text) => {
    expect(parse(text)).toEqual({ config: { onnx: {}, free: {} }, problems: [] });
  });

  it('takes the last of equal keys and says so', () => {
    const { config, problems } = parse('batchSize: 2\nbatchSize: 3\n');
    expect(config.batchSize).toBe(3);
    expect(problems).toMatchObject([{ severity: 'warning', key: 'batchSize', where: 'model-config.yaml:2' }]);
  });

  it('reads merges', () => {
    expect(parse('base: &base\n  batchSize: 3\n<<: *base\n').config.batchSize).toBe(3);
  });

  it('does not touch prototypes', () => {
    const { config } = parse('__proto__:\n  polluted: true\n');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.getPrototypeOf(config.free)).toBe(Object.prototype);
  });
});

describe('nested forms', () => {
  it.each([
    ['models: NAME', 'threshold: 1\nmodels:\n  digits:\n    minWorkers: 2\n    labels: [x]\n  other:\n    minWorkers: 5\n'],
    ['NAME', 'threshold: 1\ndigits:\n  minWorkers: 2\n  labels: [x]\n'],
  ])('%s', (_, text) => {
    const { config, problems } = parse(text);
    expect(config).toEqual({ minWorkers: 2, maxWorkers: 2, onnx: {}, free: { threshold: 1, labels: ['x'] } });
    expect(problems).toEqual([]);
  });

  it('gives the line of a nested mistake', () => {
    const { problems } = parse('models:\n  digits:\n    batchSize: x\n    onnx:\n      nothing: 1\n');
    expect(problems.map(({ where }) => where)).toEqual(['model-config.yaml:3', 'model-config.yaml:5']);
  });

  it('uses a single section of another name, with a warning', () => {
    const { config, problems } = parse('models:\n  old:\n    batchSize: 2\n');
    expect(config.batchSize).toBe(2);
    expect(problems).toMatchObject([{ severity: 'warning', key: 'models.old' }]);
  });

  it('says when no section fits', () => {
    const { config, problems } = parse('models:\n  a:\n    batchSize: 2\n  b:\n    batchSize: 3\n');
    expect(config.batchSize).toBeUndefined();
    expect(problems).toMatchObject([{ severity: 'warning', key: 'models', message: expect.stringContaining('digits') }]);
  });

  it("leaves a handler's own sections alone", () => {
    const { config } = parse('digits:\n  mode: x\nmodels: [a, b]\n');
    expect(config.free).toEqual({ digits: { mode: 'x' }, models: ['a', 'b'] });
  });
});

describe('onnx', () => {
  it('reads every option', () => {
    const { config, problems } = parse(
      [
        'onnx:',
        '  model: net/a.onnx',
        '  sessions: {detect: det.onnx}',
        '  providers: [CUDAExecutionProvider, cpu]',
        '  requireDevice: false',
        '  graphOptimizationLevel: extended',
        '  intraOpNumThreads: 2',
        '  interOpNumThreads: 1',
        '  executionMode: parallel',
        '  enableCpuMemArena: false',
        '  enableMemPattern: true',
        '  enableProfiling: true',
        '  logSeverityLevel: 3',
        '  configEntries:',
        '    session.intra_op.allow_spinning: 0',
        '    session.set_denormal_as_zero: true',
      ].join('\n'),
    );
    expect(problems).toEqual([]);
    expect(config.onnx).toEqual({
      model: 'net/a.onnx',
      sessions: { detect: 'det.onnx' },
      providers: ['cuda', 'cpu'],
      requireDevice: false,
      graphOptimizationLevel: 'extended',
      intraOpNumThreads: 2,
      interOpNumThreads: 1,
      executionMode: 'parallel',
      enableCpuMemArena: false,
      enableMemPattern: true,
      enableProfiling: true,
      profileFilePrefix: 'digits_profile',
      logSeverityLevel: 3,
      configEntries: { 'session.intra_op.allow_spinning': '0', 'session.set_denormal_as_zero': '1' },
    });
  });

  it.each([
    ['graphOptimisationLevel: all', 'did you mean onnx.graphOptimizationLevel?'],
    ['intra_op_num_threads: 2', 'did you mean onnx.intraOpNumThreads?'],
    ['somethingElse: 2', 'known are'],
    ['freeDimensionOverrides: {batch: 1}', 'ignores it'],
    ['customOpLibraries: [a.so]', 'ignores it'],
    ['gpu_mem_limit: 1000', 'passes only the device'],
    ['gpuMemLimit: 1000', 'passes only the device'],
    ['arena_extend_strategy: kSameAsRequested', 'passes only the device'],
    ['cudnn_conv_algo_search: HEURISTIC', 'passes only the device'],
    ['terminate: true', 'cannot be stopped'],
    ['deviceIds: [0]', 'beside onnx'],
    ['providers: [tensorrt]', 'cpu and cuda'],
    ['providers: []', 'cpu and cuda'],
    ['providers: [{name: cuda}]', 'cpu and cuda'],
    ['graphOptimizationLevel: most', 'one of disabled'],
    ['intraOpNumThreads: -1', '0 to 1024'],
    ['enableProfiling: 1', 'true or false'],
    ['model: ../other.onnx', 'inside the archive'],
    ['model: /etc/passwd', 'inside the archive'],
    ['sessions: {a: ../b.onnx}', 'inside the archive'],
    ['configEntries: {spin: 1}', 'session.'],
    ['configEntries: {session.x: [1]}', 'session.'],
  ])('refuses %s by name', (line, part) => {
    const key = `onnx.${line.split(':')[0]}`;
    expect(parse(`onnx:\n  ${line}\n`).problems).toMatchObject([
      { severity: 'error', key, where: 'model-config.yaml:2', message: expect.stringContaining(part) },
    ]);
  });

  it.each(['onnx: fast\n', 'onnx: [a]\n'])('refuses %j', (text) => {
    expect(parse(text).problems).toMatchObject([{ severity: 'error', key: 'onnx' }]);
  });

  it.each([
    ['deviceType: gpu\nonnx:\n  providers: [cpu]\n', 'error'],
    ['deviceType: cpu\nonnx:\n  providers: [cuda]\n', 'error'],
    ['deviceIds: [1]\n', 'warning'],
  ])('sees the contradiction in %j', (text, severity) => expect(parse(text).problems).toMatchObject([{ severity }]));
});
