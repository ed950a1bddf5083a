import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { metric } from '../../helpers/client.js';
import { until } from '../../helpers/until.js';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { descriptorsOf, memoryOf } from '../process-tree.js';

const RATE = 40;
/** Bytes that each slow client announces. */
const ANNOUNCED = 4_000_000;
const MEMORY_PER_CLIENT = 1024 * 1024;

/** Clients that send slowly, read slowly, stop in the middle, or leave. */
export const clients: Part = {
  name: 'clients',
  does: 'slow senders, slow readers, clients that vanish before, in and after their request',
  async run({ kit, options, folder, say }: Context) {
    const { digits, store } = kit;
    const server = await launch({ folder, store, load: [digits.model] });
    const asker = new Asker(server.inference, server.grpcInference);
    const { hostname, port } = new URL(server.inference);
    const body = digits.inputs[0]!;
    const head = (length: number) =>
      `POST /predictions/${digits.model} HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nContent-Length: ${length}\r\n\r\n`;
    const sockets: Socket[] = [];
    const open = async (): Promise<Socket> => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined);
      await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
      sockets.push(socket);
      return socket;
    };
    const slow = options.full ? 300 : 100;
    const rounds = options.full ? 20 : 3;
    const violations: string[] = [];
    try {
      await learn(asker, [digits]);
      const load = new Load(asker, [{ target: digits, rate: RATE }]);
      await pause(1000);
      const descriptors = await descriptorsOf(server.pid);
      const memory = await memoryOf(server.pid);
      // Half a head; a body of which 64 KiB came; answers that nobody reads, many behind each other.
      for (let number = 0; number < slow; number++) {
        const socket = await open();
        if (number % 3 === 0) socket.write(head(body.length).slice(0, 40));
        else if (number % 3 === 1) socket.write(Buffer.concat([Buffer.from(head(ANNOUNCED)), Buffer.alloc(65_536)]));
        else {
          socket.pause();
          for (let round = 0; round < 4; round++) socket.write(Buffer.concat([Buffer.from(head(body.length)), body]));
        }
      }
      let vanished = 0;
      for (let round = 0; round < rounds; round++) {
        for (let number = 0; number < 20; number++, vanished++) {
          const socket = await open();
          socket.write(head(body.length));
          if (number % 4 === 0) socket.write(body.subarray(0, 50));
          else if (number % 4 === 1) socket.write(body);
          else if (number % 4 === 2) socket.end(body);
          if (number % 2 === 0) socket.resetAndDestroy();
          else socket.destroy();
        }
        await pause(500);
      }
      const grown = (await memoryOf(server.pid)) - memory;
      if (grown > slow * MEMORY_PER_CLIENT)
        violations.push(`${slow} slow clients took ${(grown / 1e6).toFixed(0)} MB of the front`);
      for (const socket of sockets) socket.destroy();
      const tally = await load.stop();
      violations.push(...tally.violations());
      asker.close();
      const idle = async () => {
        const waiting = await metric(server.metrics, 'onnxserve_queue_depth');
        const held = await metric(server.metrics, 'onnxserve_in_flight');
        const now = await descriptorsOf(server.pid);
        return waiting === 0 && held === 0 && now <= descriptors ? now : undefined;
      };
      const left = await until(idle, 'the front has let go of all that left', 20_000).catch((error: Error) => error.message);
      if (typeof left === 'string') {
        violations.push(`${left}: ${await descriptorsOf(server.pid)} descriptors, ${descriptors} before`);
      }
      say(`front: ${(grown / 1e6).toFixed(0)} MB more with the slow clients`);
      return {
        figures: { slow, vanished, answers: tally.answers, bad: tally.bad, 'p99 ms': tally.quantile(0.99).toFixed(0) },
        violations,
      };
    } finally {
      for (const socket of sockets) socket.destroy();
      asker.close();
      await server.stop();
    }
  },
};
