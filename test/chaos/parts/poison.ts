import { setTimeout as pause } from 'node:timers/promises';
import { Asker, type Reply } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';

const RATE = 40;

/** Inputs that end the process of their handler, between others that do not. */
export const poison: Part = {
  name: 'poison',
  does: 'inputs on which the handler calls process.abort() or process.exit(), among others',
  async run({ kit, options, folder }: Context) {
    const { poison: target, store } = kit;
    const server = await launch({ folder, store, load: [target.model] });
    const asker = new Asker(server.inference, server.grpcInference);
    const violations: string[] = [];
    const rounds = options.full ? 40 : 5;
    let refused = 0;
    try {
      await learn(asker, [target]);
      const load = new Load(asker, [{ target, rate: RATE }]);
      for (let round = 0; round < rounds; round++) {
        const kind = round % 2 === 0 ? 'abort' : 'exit';
        const protocol = round % 4 < 2 ? 'http' : 'grpc';
        const guilty = { ...target, inputs: [Buffer.from(kind)] };
        const reply = await asker.ask(protocol, guilty, 0, `poison-${round}`);
        const wrong = judged(reply);
        if (wrong === undefined) refused++;
        else violations.push(`${kind} over ${protocol}: ${wrong}: ${reply.status} ${reply.body.slice(0, 300)}`);
        await pause(500);
      }
      const tally = await load.stop();
      violations.push(...tally.violations().map((text) => `mates: ${text}`));
      await server.untilReady(target.model);
      return {
        figures: { poisonous: rounds, 'refused with the reason': refused, mates: tally.answers, 'mates lost': tally.bad },
        violations,
      };
    } finally {
      asker.close();
      await server.stop();
    }
  },
};

/** What is wrong with the refusal of a poisonous request. */
function judged({ ok, status, body }: Reply): string | undefined {
  if (ok) return 'it was answered';
  if (!/^(500|grpc 13)$/.test(status)) return 'another status than 500 or INTERNAL';
  return /[Ww]orker died \((signal SIGABRT|exit code 3)\)/.test(body) ? undefined : 'the error does not say what happened';
}
