import { setTimeout as pause } from 'node:timers/promises';
import { metric } from '../../helpers/client.js';
import { Asker } from '../ask.js';
import { type Instance, launch } from '../instance.js';
import { capacity, learn, Load, type Stream } from '../load.js';
import type { Target } from '../models.js';
import type { Context, Part } from '../part.js';
import { randomOf } from '../random.js';
import { childrenOf } from '../process-tree.js';
import type { Tally } from '../tally.js';

const EVERY_MS = 5000;
/** Answers a second under kills, as a share of those without. */
const LEAST_THROUGHPUT = 0.8;

/** A worker is killed every five seconds, at half of the load that the server can take, over HTTP and gRPC. */
export const kills: Part = {
  name: 'kills',
  does: 'SIGKILL of a worker every 5 s at half load, HTTP and gRPC',
  async run(context) {
    const { kit, options, folder, say } = context;
    const targets = [kit.digits, kit.second];
    const server = await launch({ folder, store: kit.store, load: targets.map(({ model }) => model) });
    const asker = new Asker(server.inference, server.grpcInference);
    try {
      await learn(asker, targets);
      const most = await capacity(asker, targets, 16, options.full ? 10 : 4);
      const streams = targets.map((target, at): Stream => ({ target, rate: most[at]! / 2 }));
      say(`half load: ${streams.map(({ target, rate }) => `${target.model} ${rate.toFixed(1)}/s`).join(', ')}`);
      const children = (await childrenOf(server.pid)).length;
      const counted = await metric(server.metrics, 'onnxserve_requests_total');
      const before = await under(asker, streams, options.calmSeconds * 1000);
      const reruns = await metric(server.metrics, 'onnxserve_batch_release_total', { reason: 'rerun' });
      const killed = { count: 0 };
      const disturbed = await under(asker, streams, options.killSeconds * 1000, (until) =>
        killing(context, server, targets, until, killed),
      );
      for (const { model } of targets) await server.untilReady(model);
      const after = await under(asker, streams, options.calmSeconds * 1000);
      const rerun = (await metric(server.metrics, 'onnxserve_batch_release_total', { reason: 'rerun' })) - reruns;
      const calm = (before.rate + after.rate) / 2;
      const share = disturbed.rate / calm;
      const all = [before, disturbed, after].reduce((sum, { sent }) => sum + sent, 0);
      const answered = (await metric(server.metrics, 'onnxserve_requests_total')) - counted;
      const left = (await childrenOf(server.pid)).length;
      const batches = await meanBatch(server);
      return {
        figures: {
          kills: killed.count,
          answers: disturbed.answers,
          bad: disturbed.bad,
          'runs repeated': rerun,
          'mean batch': batches,
          'answers/s': disturbed.rate.toFixed(1),
          'undisturbed/s': calm.toFixed(1),
          throughput: share.toFixed(3),
          'p50 ms': `${disturbed.quantile(0.5).toFixed(0)} (${before.quantile(0.5).toFixed(0)}, ${after.quantile(0.5).toFixed(0)})`,
          'p99 ms': `${disturbed.quantile(0.99).toFixed(0)} (${before.quantile(0.99).toFixed(0)}, ${after.quantile(0.99).toFixed(0)})`,
        },
        violations: [
          ...[before, after].flatMap((tally) => tally.violations().map((text) => `undisturbed: ${text}`)),
          ...disturbed.violations(),
          ...(share < LEAST_THROUGHPUT
            ? [`throughput ${share.toFixed(3)} of the undisturbed, ${LEAST_THROUGHPUT} is the least`]
            : []),
          ...(answered !== all ? [`the server counts ${answered} answers to ${all} requests`] : []),
          ...(left !== children ? [`${left} children of the front, ${children} before`] : []),
          ...(killed.count === 0 ? ['nobody was killed'] : []),
        ],
      };
    } finally {
      asker.close();
      await server.stop();
    }
  },
};

async function under(
  asker: Asker,
  streams: readonly Stream[],
  ms: number,
  disturb?: (until: number) => Promise<void>,
): Promise<Tally> {
  const load = new Load(asker, streams);
  if (disturb === undefined) await pause(ms);
  else await disturb(Date.now() + ms);
  return await load.stop();
}

async function killing(
  { options, say }: Context,
  server: Instance,
  targets: readonly Target[],
  until: number,
  killed: { count: number },
): Promise<void> {
  const random = randomOf(options.seed);
  let due = Date.now() + EVERY_MS / 2;
  while (due < until) {
    await pause(Math.max(0, due - Date.now()));
    due += EVERY_MS;
    // In turns: what is run again alone after a death has ten seconds then, and is not blamed for the next one.
    const { model } = targets[killed.count % targets.length]!;
    const ready = (await server.describe(model)).workers.filter(({ status }) => status === 'READY');
    const victim = ready[Math.floor(random() * ready.length)];
    if (victim === undefined) {
      say(`no worker of ${model} is ready to be killed`);
      continue;
    }
    process.kill(victim.pid, 'SIGKILL');
    killed.count++;
    if (killed.count % 12 === 0) say(`${killed.count} kills`);
  }
  await pause(Math.max(0, until - Date.now()));
}

async function meanBatch(server: Instance): Promise<string> {
  const sum = await metric(server.metrics, 'onnxserve_batch_size_sum');
  const count = await metric(server.metrics, 'onnxserve_batch_size_count');
  return (sum / count).toFixed(1);
}
