import { readdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../../helpers/until.js';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { askOnce, learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { alive, treeOf } from '../process-tree.js';
import { Tally } from '../tally.js';

/** The front is killed; nobody may be left behind, and the next one cleans up. */
export const front: Part = {
  name: 'front',
  does: 'SIGKILL of the front under load, then a new start in the same folders',
  async run({ kit, options, folder }: Context) {
    const { digits, second, store } = kit;
    const targets = [digits, second];
    const violations: string[] = [];
    const rounds = options.full ? 10 : 2;
    let slowest = 0;
    let answers = 0;
    let entries: number | undefined;
    for (let round = 0; round < rounds; round++) {
      const server = await launch({ folder, store, load: targets.map(({ model }) => model) });
      const asker = new Asker(server.inference, server.grpcInference);
      try {
        // What the dead one had unpacked is gone, so each start finds as much as the first.
        const now = (await readdir(server.temp)).length;
        entries ??= now;
        if (now > entries)
          violations.push(`start ${round + 1}: ${now} entries in the temporary folder, ${entries} after the first`);
        if (round === 0) await learn(asker, targets);
        const tally = new Tally();
        for (const target of targets) {
          for (const at of target.inputs.keys())
            await askOnce(asker, at % 2 === 0 ? 'http' : 'grpc', target, at, tally, performance.now());
        }
        violations.push(...tally.violations());
        answers += tally.answers;
        const load = new Load(asker, [
          { target: digits, rate: 40 },
          { target: second, rate: 8 },
        ]);
        await pause(500);
        const tree = await treeOf(server.pid);
        const since = Date.now();
        server.kill('SIGKILL');
        await server.exit;
        const gone = async () => (tree.some(alive) ? undefined : true);
        const orphans = await until(gone, 'its workers end', 10_000).then(
          () => [],
          () => tree.filter(alive),
        );
        slowest = Math.max(slowest, Date.now() - since);
        for (const pid of orphans) process.kill(pid, 'SIGKILL');
        if (orphans.length > 0) violations.push(`${orphans.length} workers outlived the front by 10 s`);
        await load.stop();
      } finally {
        asker.close();
        await server.stop();
      }
    }
    return { figures: { kills: rounds, answers, 'last worker gone after s': (slowest / 1000).toFixed(1) }, violations };
  },
};
