import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Batcher } from '../batching/batcher.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, noStages, type PredictReply, type PredictRequest } from '../domain/request.js';
import type { FromWorker, LoadSpec, ToWorker } from '../ipc/messages.js';
import { Pool } from './pool.js';
import { Worker, type WorkerOptions } from './worker.js';
import type { ProcessListener, SpawnWorker } from './worker-process.js';

class FakeProcess {
  readonly sent: ToWorker[] = [];
  readonly signals: NodeJS.Signals[] = [];

  constructor(
    readonly pid: number,
    readonly listener: ProcessListener,
  ) {}

  send(message: ToWorker): void {
    this.sent.push(message);
  }
  kill(signal: NodeJS.Signals): void {
    this.signals.push(signal);
  }
  say(message: FromWorker, blob = Buffer.alloc(0)): void {
    this.listener.message(message, blob);
  }
  load(): void {
    this.say({
      type: 'loaded',
      info: { inputs: [], outputs: [], providers: ['cpu'], wholeBatch: false, continuous: false, loadMs: 5 },
    });
  }
  die(code: number | null = null, signal: NodeJS.Signals | null = 'SIGKILL'): void {
    this.listener.exit(code, signal);
  }
  /** Ids of the items in each batch that it was handed. */
  get batches(): number[][] {
    return this.sent.flatMap((message) => (message.type === 'batch' ? [message.items.map(({ job }) => job)] : []));
  }
  get held(): number[] {
    return this.batches.flat();
  }
  run(...jobs: number[]): void {
    this.say({ type: 'run', jobs, rows: jobs.length });
  }
  answer(...jobs: number[]): void {
    const items = jobs.map((job) => ({
      job,
      ok: true as const,
      status: 200,
      headers: [],
      length: 2,
      stages: noStages(),
      batchSize: 1,
      postprocessedAt: monotonicNow(),
    }));
    this.say({ type: 'results', items }, Buffer.from('ok'.repeat(jobs.length)));
  }
}

let processes: FakeProcess[];
let batcher: Batcher;
const spawn: SpawnWorker = (_, listener) => {
  const process = new FakeProcess(1000 + processes.length, listener);
  processes.push(process);
  return process;
};
const last = () => processes.at(-1)!;

function make(changes: Partial<WorkerOptions> = {}): Worker {
  return new Worker({
    id: 'w',
    batcher,
    spawn,
    spawnOptions: { env: {}, cwd: '/' },
    spec: { name: 'm', version: '1.0' } as LoadSpec,
    startupTimeout: 30,
    responseTimeout: 10,
    maxRetryTimeout: 300,
    onLoadFailure: 'retry',
    rerunOnWorkerDeath: false,
    logLevels: undefined,
    changed: () => undefined,
    ...changes,
  });
}
function ready(changes: Partial<WorkerOptions> = {}): Worker {
  const worker = make(changes);
  worker.start();
  last().load();
  return worker;
}
function ask(count = 1): Array<Promise<string>> {
  const all = Array.from({ length: count }, () =>
    batcher
      .submit({
        id: 'r',
        modelName: 'm',
        modelVersion: undefined,
        kind: 'predict',
        rawHeaders: [],
        urlPath: '',
        query: [],
        body: Buffer.alloc(0),
        receivedAt: monotonicNow(),
        client: undefined,
      } satisfies PredictRequest)
      .then(
        ({ body }: PredictReply) => (body as Buffer).toString(),
        (error: unknown) => (error as ServeError).code,
      ),
  );
  vi.advanceTimersByTime(0);
  return all;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'hrtime', 'Date'] });
  processes = [];
  batcher = new Batcher({
    model: 'm',
    version: '1.0',
    batchSize: 4,
    maxBatchDelay: undefined,
    jobQueueSize: 100,
    useJobTicket: false,
    clientTimeout: 0,
  });
});
afterEach(() => void vi.useRealTimers());

describe('loading', () => {
  it('takes requests only when it is over', async () => {
    const worker = make();
    worker.start();
    expect(last().sent).toEqual([{ type: 'load', spec: expect.objectContaining({ name: 'm' }) as unknown }]);
    const [answer] = ask();
    expect(last().batches).toEqual([]);
    last().load();
    expect(worker.state.at).toBe('ready');
    const [job] = last().held;
    last().answer(job!);
    expect(await answer).toBe('ok');
  });

  it('that takes too long ends with the limit and its setting', () => {
    const worker = make();
    worker.start();
    vi.advanceTimersByTime(30_000);
    expect(last().signals).toEqual(['SIGKILL']);
    last().die();
    expect(worker.lastError?.message).toContain('30 s (startupTimeout)');
  });

  it('that fails is tried again by the ladder, and given up after the window', () => {
    const worker = make({ maxRetryTimeout: 3 });
    worker.start();
    const starts: number[] = [];
    for (let i = 0; i < 6 && worker.state.at !== 'gave-up'; i++) {
      starts.push(processes.length);
      last().say({ type: 'failed', error: { code: 'WORKER_START_FAILED', message: 'no vocabulary' } });
      expect(last().signals).toEqual(['SIGKILL']);
      last().die();
      expect(worker.promising).toBe(false);
      vi.advanceTimersByTime(2000);
    }
    expect(worker.state.at).toBe('gave-up');
    expect(worker.healthy).toBe(false);
    expect(worker.lastError?.message).toBe('no vocabulary');
    expect(starts).toEqual([1, 2, 3]);
  });

  it('clears the error of earlier tries', () => {
    const worker = make();
    worker.start();
    last().die(1, null);
    expect(worker.lastError?.message).toContain('exit code 1 while it loaded');
    vi.advanceTimersByTime(0);
    last().load();
    expect(worker.lastError).toBeUndefined();
    expect(worker.restarts).toBe(1);
  });
});

describe('a death in service', () => {
  it('fails what ran; the replacement answers what waited', async () => {
    const worker = ready();
    const all = ask(8);
    const held = last().held;
    last().run(...held.slice(0, 4));
    last().die();
    expect(worker.promising).toBe(true);
    vi.advanceTimersByTime(0);
    last().load();
    last().answer(...last().held);
    expect(await Promise.all(all)).toEqual([...Array<string>(4).fill('WORKER_DIED'), ...Array<string>(4).fill('ok')]);
  });

  it('runs again, alone and once, what ran where that is wanted', async () => {
    ready({ rerunOnWorkerDeath: undefined });
    const [guilty, innocent, waiting] = ask(3);
    last().run(1, 2);
    last().die();
    vi.advanceTimersByTime(0);
    last().load();
    vi.advanceTimersByTime(0);
    expect(last().batches).toEqual([[1]]);
    last().run(1);
    last().die();
    expect(await guilty).toBe('WORKER_DIED');
    await vi.advanceTimersByTimeAsync(1000);
    last().load();
    vi.advanceTimersByTime(0);
    expect(last().batches).toEqual([[2]]);
    last().run(2);
    last().answer(2);
    vi.advanceTimersByTime(0);
    last().answer(3);
    expect(await Promise.all([innocent, waiting])).toEqual(['ok', 'ok']);
  });

  it('never runs again what a client has seen a part of', async () => {
    ready({ rerunOnWorkerDeath: true });
    const [streamed] = ask();
    last().run(1);
    last().say({ type: 'stream-start', job: 1, status: 200, headers: [], stages: noStages(), batchSize: 1 });
    last().die();
    vi.advanceTimersByTime(0);
    last().load();
    vi.advanceTimersByTime(0);
    expect(last().batches).toEqual([]);
    await streamed?.catch(() => undefined);
  });

  it('before any run: each is tried alone, and the one that kills again is answered', async () => {
    ready();
    const all = ask(3);
    const [, killer] = last().held;
    for (let deaths = 0; deaths < 2;) {
      const [job] = last().held.slice(-1);
      if (last().held.includes(killer!)) {
        last().die();
        deaths++;
        vi.advanceTimersByTime(0);
        last().load();
      } else last().answer(job!);
    }
    expect(last().batches).toHaveLength(1);
    last().answer(...last().held);
    expect(await Promise.all(all)).toEqual(['ok', 'WORKER_DIED', 'ok']);
  });

  it('asked for by the server blames nobody', async () => {
    const worker = ready();
    const [answer] = ask();
    for (let round = 0; round < 3; round++) {
      const stopped = worker.stop(true, 1000);
      last().die();
      await stopped;
      expect(worker.state.at).toBe('stopped');
      worker.start();
      last().load();
    }
    last().answer(...last().held);
    expect(await answer).toBe('ok');
  });
});

describe('silence', () => {
  it('of a run longer than responseTimeout fails it and replaces the process', async () => {
    ready();
    const [slow, waiting] = ask(2);
    const [first] = last().held;
    vi.advanceTimersByTime(9000);
    last().run(first!);
    vi.advanceTimersByTime(9000);
    expect(last().signals).toEqual([]);
    vi.advanceTimersByTime(1100);
    expect(last().signals).toEqual(['SIGKILL']);
    expect(await slow).toBe('RESPONSE_TIMEOUT');
    const given = last().held.length;
    void ask();
    expect(last().held).toHaveLength(given);
    last().die();
    vi.advanceTimersByTime(0);
    last().load();
    last().answer(...last().held);
    expect(await waiting).toBe('ok');
  });

  it('before a run is found later, and the mates are not blamed', async () => {
    ready();
    const all = ask(2);
    vi.advanceTimersByTime(12_600);
    expect(last().signals).toEqual(['SIGKILL']);
    last().die();
    vi.advanceTimersByTime(0);
    last().load();
    const [innocent] = last().held;
    last().answer(innocent!);
    expect(await all[0]).toBe('ok');
    vi.advanceTimersByTime(13_000);
    expect(await all[1]).toBe('RESPONSE_TIMEOUT');
  });

  it('without requests is no silence', () => {
    ready();
    vi.advanceTimersByTime(1e7);
    expect(last().signals).toEqual([]);
  });
});

describe('stopping', () => {
  it('lets what runs finish and gives the rest back', async () => {
    const worker = ready();
    const all = ask(2);
    const [runs, waits] = last().held;
    last().run(runs!);
    const stopped = worker.stop(false, 5000);
    expect(last().sent.at(-1)).toEqual({ type: 'recall', count: 2 });
    last().say({ type: 'recalled', jobs: [waits!] });
    expect(batcher.queued).toBe(1);
    last().answer(runs!);
    expect(last().sent.at(-1)).toEqual({ type: 'stop' });
    last().die(0, null);
    await stopped;
    expect(await all[0]).toBe('ok');
    expect(worker.state.at).toBe('stopped');
  });

  it('is forced when its time is over, also when it was asked for twice', async () => {
    const worker = ready();
    const stopped = Promise.all([worker.stop(false, 5000), worker.stop(false, 5000)]);
    vi.advanceTimersByTime(5000);
    expect(last().signals).toEqual(['SIGKILL']);
    last().die();
    await stopped;
  });
});

describe('a pool', () => {
  const pool = () => new Pool({ stopGraceMs: 1000, create: (changed) => make({ changed }) });

  it('starts what is missing and tells when all are ready', async () => {
    const it = pool();
    await it.scale(2, 2);
    const started = it.started();
    for (const process of processes) process.load();
    await started;
    expect(it.ready).toBe(2);
    const scaled = it.scale(1, 1);
    last().die(0, null);
    await scaled;
    expect(it.workers).toHaveLength(1);
  });

  it('tells the first failure', async () => {
    const it = pool();
    await it.scale(2, 2);
    const started = it.started();
    processes[1]!.say({ type: 'failed', error: { code: 'WORKER_START_FAILED', message: 'no vocabulary' } });
    processes[1]!.die();
    await expect(started).rejects.toThrow('no vocabulary');
  });

  it('stops all, and nobody waits for ever', async () => {
    const it = pool();
    await it.scale(2, 2);
    const started = it.started();
    const stopped = it.stop(true);
    for (const process of processes) process.die();
    await stopped;
    await expect(started).rejects.toThrow('unregistered');
    expect(it.workers).toEqual([]);
  });

  it('starts again, when it is scaled, what was given up', async () => {
    const it = new Pool({ stopGraceMs: 1000, create: (changed) => make({ changed, onLoadFailure: 'give-up' }) });
    await it.scale(1, 1);
    last().die(1, null);
    expect(it.workers.map(({ state }) => state.at)).toEqual(['gave-up']);
    await it.scale(1, 1);
    expect(processes).toHaveLength(2);
    const started = it.started();
    last().load();
    await started;
    expect(it.ready).toBe(1);
    expect(it.workers[0]!.restarts).toBe(1);
  });

  it('goes back to the numbers of before without those that do not serve', async () => {
    const it = pool();
    await it.scale(1, 1);
    last().load();
    await it.scale(3, 3);
    last().die(1, null);
    const restored = it.restore(1, 1);
    processes[1]!.die();
    await restored;
    expect(it.workers.map(({ state }) => state.at)).toEqual(['ready']);
    expect([it.min, it.max]).toEqual([1, 1]);
  });

  describe('with a spare worker', () => {
    const spared = () => new Pool({ stopGraceMs: 1000, spareWorkers: 1, create: (changed, spare) => make({ changed, spare }) });

    it('lets it take over at once, and the dead one is the next spare', async () => {
      const it = spared();
      await it.scale(1, 1);
      expect(processes).toHaveLength(2);
      for (const process of processes) process.load();
      const [answer] = ask();
      expect(processes[1]!.held).toEqual([]);
      processes[0]!.die();
      expect(it.ready).toBe(1);
      vi.advanceTimersByTime(0);
      // Nobody ran it, so nobody is blamed; it stands in the queue again and the spare one has it now.
      expect(processes[1]!.held).toEqual([1]);
      processes[1]!.answer(1);
      expect(await answer).toBe('ok');
      last().load();
      expect(it.workers.map(({ spare, state }) => [spare, state.at])).toEqual([
        [true, 'ready'],
        [false, 'ready'],
      ]);
      void ask();
      expect(last().held).toEqual([]);
    });

    it('uses it when more workers are wanted, and has none for a model without workers', async () => {
      const it = spared();
      await it.scale(1, 1);
      for (const process of processes) process.load();
      await it.scale(2, 2);
      expect(it.ready).toBe(2);
      expect(processes).toHaveLength(3);
      const none = it.scale(0, 0);
      for (const process of processes) process.die(0, null);
      await none;
      expect(it.workers).toEqual([]);
    });
  });
});

describe('pauses between starts', () => {
  it('grow while processes die before they have answered anything, and are over after an answer', () => {
    const worker = ready();
    const pauses: number[] = [];
    for (let death = 0; death < 6; death++) {
      last().die();
      const { state } = worker;
      if (state.at !== 'waiting') throw new Error(state.at);
      pauses.push(state.until - Date.now());
      vi.advanceTimersByTime(pauses.at(-1)!);
      last().load();
    }
    expect(pauses).toEqual([0, 0, 1000, 1000, 2000, 3000]);
    void ask();
    last().answer(...last().held);
    last().die();
    expect(worker.state).toMatchObject({ at: 'waiting', until: Date.now() });
  });

  it('are not there for a model that is given up at its first failure', () => {
    const worker = make({ onLoadFailure: 'give-up' });
    worker.start();
    last().die(1, null);
    expect(worker.state.at).toBe('gave-up');
    expect(worker.facts.failed).toBe(true);
  });
});

it('tells readiness when it went down and whether a start failed since', () => {
  const worker = ready();
  vi.advanceTimersByTime(5000);
  expect(worker.facts).toMatchObject({ ready: true, failed: false });
  last().die();
  const downSince = Date.now();
  expect(worker.facts).toEqual({ ready: false, failed: false, downSince });
  vi.advanceTimersByTime(10);
  last().die(1, null);
  expect(worker.facts).toEqual({ ready: false, failed: true, downSince });
  vi.advanceTimersByTime(2000);
  last().load();
  expect(worker.facts).toMatchObject({ ready: true, failed: false });
});
