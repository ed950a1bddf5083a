import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { post, send } from '../helpers/client.js';
import { type Model, startServer, type TestServer } from '../helpers/server.js';
import { until } from '../helpers/until.js';

const names = ['OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'VIPS_CONCURRENCY', 'RAYON_NUM_THREADS'];
const tells = `
export default { handle: (batch, ctx) => batch.map(() => ({
  threads: ctx.worker.threads,
  env: Object.fromEntries(${JSON.stringify(names)}.map((name) => [name, process.env[name]])),
})) };`;
const one = { minWorkers: 1, maxWorkers: 1 };

type Threaded = Omit<Model, 'workers'> & {
  readonly threadsFrom: string;
  readonly workers: ReadonlyArray<{ readonly threads: number; readonly pid: number }>;
};
const describeThreads = async (server: TestServer, model: string) => (await server.describe(model)) as unknown as Threaded;
const told = async (server: TestServer, model: string) =>
  (await post(`${server.inference}/predictions/${model}`, {})).json as { threads: number; env: Record<string, string> };
const same = (value: number) => Object.fromEntries(names.map((name) => [name, String(value)]));
/** Without what the machine that runs the tests may have set. */
const unset = Object.fromEntries(names.map((name) => [name, '']));

describe('threads of a run', () => {
  it('are the cores divided by the workers, anew for each worker that is added', async () => {
    const server = await startServer({ models: { tells: { handlerSource: tells, config: one } }, environment: unset });
    try {
      const alone = await describeThreads(server, 'tells');
      const cpus = alone.workers[0]!.threads;
      expect(alone.threadsFrom).toBe('cores divided by workers');
      expect(alone.warnings).toBeUndefined();
      expect(await told(server, 'tells')).toMatchObject({ threads: cpus });
      const line = new RegExp(`a run uses ${cpus} threads? \\(cores divided by workers\\)`);
      await until(async () => (line.test(server.logs()) ? true : undefined), 'the log tells of the threads');

      const scaled = await send('PUT', `${server.management}/models/tells?min_worker=${cpus + 1}&synchronous=true`);
      expect(scaled.status).toBe(200);
      const many = await describeThreads(server, 'tells');
      expect(many.workers.map(({ threads }) => threads)).toEqual([cpus, ...Array.from({ length: cpus }, () => 1)]);
      // More workers than cores is what the operator asked for, and what slows all of them down.
      expect(many.warnings).toEqual([expect.stringMatching(/workers with 1 thread each share .*lower minWorkers/)]);
      await until(async () => (server.logs().includes(many.warnings![0]!) ? true : undefined), 'the log warns');
    } finally {
      await server.stop();
    }
  });

  it('come from the environment unless the model has a number of its own; more than the cores is a warning', async () => {
    const server = await startServer({
      models: {
        plain: { handlerSource: tells, config: one },
        own: { handlerSource: tells, config: { ...one, intraOpNumThreads: 1 } },
        both: { handlerSource: tells, config: { ...one, intraOpNumThreads: 3, onnx: { intraOpNumThreads: 1 } } },
      },
      environment: { ...unset, OMP_NUM_THREADS: '600' },
    });
    try {
      expect(await told(server, 'plain')).toMatchObject({ threads: 600, env: { OMP_NUM_THREADS: '600' } });
      expect(await describeThreads(server, 'plain')).toMatchObject({
        threadsFrom: 'OMP_NUM_THREADS',
        warnings: [expect.stringMatching(/^1 worker with 600 threads each \(OMP_NUM_THREADS\)/)],
      });
      for (const model of ['own', 'both']) {
        expect(await told(server, model)).toEqual({ threads: 1, env: same(1) });
        expect((await describeThreads(server, model)).threadsFrom).toBe('intraOpNumThreads');
        expect((await describeThreads(server, model)).warnings).toBeUndefined();
      }
    } finally {
      await server.stop();
    }
  });

  it('are as many as the engine starts', async (context) => {
    if (!existsSync('/proc/self/status')) return context.skip('only Linux tells the threads of a process');
    const model = 'slow.onnx';
    const server = await startServer({
      models: {
        single: { model, config: { ...one, onnx: { intraOpNumThreads: 1 } } },
        eight: { model, config: { ...one, onnx: { intraOpNumThreads: 8 } } },
      },
      environment: unset,
    });
    try {
      const count = async (name: string) => {
        const { workers } = await describeThreads(server, name);
        const status = await readFile(`/proc/${workers[0]!.pid}/status`, 'utf8');
        return Number(/^Threads:\s+(\d+)$/m.exec(status)?.[1]);
      };
      expect((await count('eight')) - (await count('single'))).toBe(7);
    } finally {
      await server.stop();
    }
  });
});
