import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../../helpers/client.js';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { descriptorsOf, memoryOf, treeOf } from '../process-tree.js';

const REGISTER_EVERY_MS = 10_000;
/** Share of the time that counts as warm-up. */
const WARM_UP = 1 / 3;
/** Growth of the memory of the whole tree from the first to the last third after it. */
const MOST_GROWTH = 0.02;

interface Sample {
  readonly memory: number;
  readonly front: number;
  readonly descriptors: number;
  readonly processes: number;
}

/** Hours of ordinary use, shortened: nothing may grow. */
export const soak: Part = {
  name: 'soak',
  does: 'mixed models, image work, register cycles: memory, descriptors and children stay as they are',
  async run({ kit, options, folder, say }: Context) {
    const { digits, second, store } = kit;
    const targets = [digits, second];
    await copyFile(join(store, 'impatient.mar'), join(store, 'passing.mar'));
    const server = await launch({ folder, store, load: targets.map(({ model }) => model) });
    const asker = new Asker(server.inference, server.grpcInference);
    const violations: string[] = [];
    const minutes = options.soakMinutes ?? 1;
    const samples: Sample[] = [];
    let cycles = 0;
    try {
      await learn(asker, targets);
      const load = new Load(asker, [
        { target: digits, rate: 24 },
        { target: second, rate: 4 },
      ]);
      const end = Date.now() + minutes * 60_000;
      while (Date.now() < end) {
        const next = Date.now() + REGISTER_EVERY_MS;
        const passing = { ...digits, model: 'passing' };
        const made = await send(
          'POST',
          `${server.management}/models?url=passing.mar&model_name=passing&initial_workers=1&synchronous=true`,
        );
        if (made.status !== 200) violations.push(`register: ${made.status} ${made.text.slice(0, 200)}`);
        const reply = await asker.ask('http', passing, 0, `passing-${cycles}`);
        if (!reply.ok) violations.push(`the model that was registered: ${reply.status} ${reply.body.slice(0, 200)}`);
        const gone = await send('DELETE', `${server.management}/models/passing`);
        if (gone.status !== 200) violations.push(`unregister: ${gone.status} ${gone.text.slice(0, 200)}`);
        cycles++;
        await pause(Math.max(0, next - Date.now()));
        samples.push(await sample(server.pid));
        if (cycles % 12 === 0)
          say(
            `${cycles} cycles, ${(samples.at(-1)!.memory / 1e6).toFixed(0)} MB, ${load.tally.answers} answers, ${load.tally.bad} bad`,
          );
      }
      const tally = await load.stop();
      violations.push(...tally.violations());
      const kept = samples.slice(Math.floor(samples.length * WARM_UP));
      const third = Math.max(1, Math.floor(kept.length / 3));
      const [first, last] = [kept.slice(0, third), kept.slice(-third)];
      const growth = middle(last, 'memory') / middle(first, 'memory') - 1;
      if (growth > MOST_GROWTH) violations.push(`memory of the tree grew by ${(growth * 100).toFixed(1)} % after warm-up`);
      const processes = new Set(kept.map((one) => one.processes));
      if (processes.size > 1) violations.push(`the number of processes changed: ${[...processes].join(', ')}`);
      const files = middle(last, 'descriptors') - middle(first, 'descriptors');
      if (files > 2) violations.push(`${files} descriptors more at the end`);
      return {
        figures: {
          minutes,
          'register cycles': cycles,
          answers: tally.answers,
          bad: tally.bad,
          'MB first': (middle(first, 'memory') / 1e6).toFixed(0),
          'MB last': (middle(last, 'memory') / 1e6).toFixed(0),
          growth: `${(growth * 100).toFixed(2)} %`,
          'front MB': `${(middle(first, 'front') / 1e6).toFixed(0)} to ${(middle(last, 'front') / 1e6).toFixed(0)}`,
          processes: [...processes].join(', '),
          descriptors: `${middle(first, 'descriptors')} to ${middle(last, 'descriptors')}`,
        },
        violations: violations.slice(0, 20),
      };
    } finally {
      asker.close();
      await server.stop();
    }
  },
};

async function sample(pid: number): Promise<Sample> {
  const tree = await treeOf(pid);
  const memory = await Promise.all(tree.map(memoryOf));
  const descriptors = await Promise.all(tree.map(descriptorsOf));
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return { memory: sum(memory), front: memory[0]!, descriptors: sum(descriptors), processes: tree.length };
}

function middle(samples: readonly Sample[], what: keyof Sample): number {
  const sorted = samples.map((one) => one[what]).sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
