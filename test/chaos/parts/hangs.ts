import { setTimeout as pause } from 'node:timers/promises';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { childrenOf } from '../process-tree.js';

/** Seconds, as in the model's configuration. */
const RESPONSE_TIMEOUT = 2;
const BATCH = 8;
const RATE = 40;

/** A worker is stopped with SIGSTOP: it neither answers nor ends. */
export const hangs: Part = {
  name: 'hangs',
  does: `SIGSTOP of a worker under load, responseTimeout ${RESPONSE_TIMEOUT} s`,
  async run({ kit, options, folder, say }: Context) {
    const { impatient, digits } = kit;
    const server = await launch({ folder, store: kit.store, load: [impatient.model, digits.model] });
    const asker = new Asker(server.inference, server.grpcInference);
    const violations: string[] = [];
    const stops = options.full ? 12 : 2;
    try {
      await learn(asker, [impatient, digits]);
      const children = (await childrenOf(server.pid)).length;
      const load = new Load(asker, [{ target: impatient, rate: RATE }]);
      const other = new Load(asker, [{ target: digits, rate: RATE }]);
      let slowest = 0;
      for (let round = 0; round < stops; round++) {
        const { workers } = await server.untilReady(impatient.model);
        const victim = workers[round % workers.length]!;
        process.kill(victim.pid, 'SIGSTOP');
        const since = Date.now();
        const replaced = async () => (await server.describe(impatient.model)).workers.every(({ pid }) => pid !== victim.pid);
        while (!(await replaced())) {
          if (Date.now() - since > RESPONSE_TIMEOUT * 1000 + 20_000) {
            violations.push(`the stopped worker ${victim.pid} was not replaced within 20 s of its responseTimeout`);
            process.kill(victim.pid, 'SIGCONT');
            break;
          }
          await pause(50);
        }
        slowest = Math.max(slowest, Date.now() - since);
        await server.untilReady(impatient.model);
      }
      const [own, others] = await Promise.all([load.stop(), other.stop()]);
      say(`${own.failures} of ${own.sent} requests were in a stopped run`);
      if (own.mistakes > 0) violations.push(`${own.mistakes} wrong answers: ${own.examples.join('; ')}`);
      if (own.failures > stops * BATCH)
        violations.push(`${own.failures} answers failed by ${stops} stops of a batch of ${BATCH}`);
      const unlike = own.examples.filter((example) => !/responseTimeout/.test(example));
      if (unlike.length > 0) violations.push(`failed for another reason than responseTimeout: ${unlike.join('; ')}`);
      violations.push(...others.violations().map((text) => `the other model: ${text}`));
      const left = (await childrenOf(server.pid)).length;
      if (left !== children) violations.push(`${left} children of the front, ${children} before`);
      return {
        figures: {
          stops,
          answers: own.answers + others.answers,
          'in a stopped run': own.failures,
          'bad otherwise': others.bad + own.mistakes,
          'replaced after at most s': (slowest / 1000).toFixed(1),
        },
        violations,
      };
    } finally {
      asker.close();
      await server.stop();
    }
  },
};
