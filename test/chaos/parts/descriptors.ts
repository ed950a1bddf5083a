import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { get } from '../../helpers/client.js';
import { until } from '../../helpers/until.js';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { descriptorsOf } from '../process-tree.js';

const LIMIT = 256;

/** More connections than the front may have files open. */
export const descriptors: Part = {
  name: 'descriptors',
  does: `clients take every descriptor of the front (ulimit -n ${LIMIT})`,
  async run({ kit, folder }: Context) {
    const { digits, store } = kit;
    const server = await launch({ folder, store, load: [digits.model], openFiles: LIMIT });
    const asker = new Asker(server.inference, server.grpcInference);
    const { hostname, port } = new URL(server.inference);
    const sockets: Socket[] = [];
    const violations: string[] = [];
    try {
      await learn(asker, [digits]);
      const [victim] = (await server.describe(digits.model)).workers;
      // Those connections are there before, so nothing must happen to them.
      const load = new Load(asker, [{ target: digits, rate: 16 }]);
      await pause(1500);
      for (let number = 0; number < LIMIT * 2; number++) {
        const socket = connect(Number(port), hostname);
        socket.on('error', () => undefined);
        sockets.push(socket);
      }
      await pause(1500);
      const most = await descriptorsOf(server.pid);
      // The replacement needs descriptors too; it must come at the latest when there are some again.
      if (victim !== undefined) process.kill(victim.pid, 'SIGKILL');
      await pause(1500);
      for (const socket of sockets) socket.destroy();
      const tally = await load.stop();
      violations.push(...tally.violations());
      await until(async () => ((await descriptorsOf(server.pid)) < LIMIT / 2 ? true : undefined), 'descriptors are free again');
      await server.untilReady(digits.model);
      const fresh = await get(`${server.inference}/ping`);
      if (fresh.status !== 200) violations.push(`/ping over a new connection: ${fresh.status} ${fresh.text}`);
      if (most < LIMIT * 0.9) violations.push(`only ${most} of ${LIMIT} descriptors were taken: nothing was tried`);
      return {
        figures: { connections: sockets.length, 'descriptors at most': most, answers: tally.answers, bad: tally.bad },
        violations,
      };
    } finally {
      for (const socket of sockets) socket.destroy();
      asker.close();
      await server.stop();
    }
  },
};
