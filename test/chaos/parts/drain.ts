import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Asker } from '../ask.js';
import { type Instance, launch } from '../instance.js';
import { learn, Load } from '../load.js';
import { freePorts, startNginx } from '../nginx.js';
import type { Context, Outcome, Part } from '../part.js';

/** Requests a second. */
const RATE = 48;
/** While it still accepts, the proxy learns from its answers that it goes. */
const GRACE_SECONDS = 1;

/** Starts, drains and stops, one of two instances at a time, behind a proxy. */
export const drain: Part = {
  name: 'drain',
  does: 'start, drain and stop under load, two instances behind nginx',
  async run(context: Context) {
    const installed = spawnSync('nginx', ['-v']).status === 0;
    if (installed) return await behindProxy(context);
    context.say('nginx is not installed (Debian: apt-get install nginx-light): clients change the instance themselves');
    return { ...(await withoutProxy(context)), skipped: 'the proxy: nginx is not installed' };
  },
};

async function behindProxy({ kit, options, folder, say }: Context): Promise<Outcome> {
  const { digits, store } = kit;
  const [one, two, front] = await freePorts(3);
  const ports = [one!, two!];
  const start = async (at: number): Promise<Instance> => {
    const own = join(folder, `instance-${at}`);
    await mkdir(own, { recursive: true });
    const config = { inference_address: `http://127.0.0.1:${ports[at]}`, shutdown_grace: GRACE_SECONDS };
    return await launch({ folder: own, store, load: [digits.model], config });
  };
  const instances = await Promise.all([start(0), start(1)]);
  const nginx = await startNginx(join(folder, 'nginx'), front!, ports);
  const asker = new Asker(`http://127.0.0.1:${front}`, undefined);
  const violations: string[] = [];
  let longest = 0;
  try {
    await learn(asker, [digits], ['http']);
    const load = new Load(asker, [{ target: digits, rate: RATE }], ['http']);
    for (let cycle = 0; cycle < options.cycles; cycle++) {
      const at = cycle % 2;
      const since = Date.now();
      const how = await instances[at]!.stop();
      longest = Math.max(longest, Date.now() - since);
      if (how !== 0) violations.push(`cycle ${cycle + 1}: it ended with ${how}\n${instances[at]!.tail()}`);
      instances[at] = await start(at);
      await pause(100);
      if ((cycle + 1) % 20 === 0) say(`${cycle + 1} cycles, ${load.tally.answers} answers, ${load.tally.bad} bad`);
    }
    const tally = await load.stop();
    violations.push(...tally.violations());
    return {
      figures: {
        cycles: options.cycles,
        proxy: 'nginx',
        answers: tally.answers,
        bad: tally.bad,
        'p99 ms': tally.quantile(0.99).toFixed(0),
        'longest drain s': (longest / 1000).toFixed(1),
      },
      violations,
    };
  } finally {
    asker.close();
    await nginx.stop();
    await Promise.all(instances.map((instance) => instance.stop()));
  }
}

/** What a server has accepted it must answer, although it was told to stop right after. */
async function withoutProxy({ kit, options, folder }: Context): Promise<Outcome> {
  const { digits, store } = kit;
  const violations: string[] = [];
  let answers = 0;
  for (let cycle = 0; cycle < options.cycles; cycle++) {
    const server = await launch({ folder, store, load: [digits.model], config: { shutdown_grace: GRACE_SECONDS } });
    const asker = new Asker(server.inference, server.grpcInference);
    if (cycle === 0) await learn(asker, [digits]);
    const load = new Load(asker, [{ target: digits, rate: RATE }]);
    await pause(500);
    server.kill('SIGTERM');
    // Within the grace everything is still accepted; it is over when the last burst has been answered.
    await pause(GRACE_SECONDS * 500);
    const tally = await load.stop();
    const how = await server.exit;
    asker.close();
    if (how !== 0) violations.push(`cycle ${cycle + 1}: it ended with ${how}`);
    violations.push(...tally.violations());
    answers += tally.answers;
  }
  return { figures: { cycles: options.cycles, proxy: 'none', answers }, violations };
}
