import { readdir } from 'node:fs/promises';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Answer, get, send } from '../../helpers/client.js';
import { until } from '../../helpers/until.js';
import { Asker } from '../ask.js';
import { type Instance, launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Part } from '../part.js';
import { childrenOf } from '../process-tree.js';
import { randomOf } from '../random.js';

const NAMES = ['racing-1', 'racing-2'];
/** What requests to a model that comes and goes may be answered with. */
const ALLOWED = new Set(['200', '404', '503', 'grpc 0', 'grpc 5', 'grpc 14']);

/** Registrations, removals, scaling and requests, all at once. */
export const races: Part = {
  name: 'races',
  does: 'register, unregister and scale the same models at once, with requests on their way',
  async run({ kit, options, folder }: Context) {
    const { digits, store } = kit;
    for (const name of NAMES) await copyFile(join(store, 'digits.mar'), join(store, `${name}.mar`));
    const server = await launch({ folder, store, load: [digits.model] });
    const asker = new Asker(server.inference, server.grpcInference);
    const violations: string[] = [];
    const end = Date.now() + (options.full ? 120_000 : 8000);
    let calls = 0;
    let asked = 0;
    try {
      await learn(asker, [digits]);
      const children = (await childrenOf(server.pid)).length;
      const unpacked = await entries(server);
      const load = new Load(asker, [{ target: digits, rate: 24 }]);
      const manager = async (seed: number) => {
        const random = randomOf(seed);
        while (Date.now() < end) {
          const name = NAMES[Math.floor(random() * NAMES.length)]!;
          const answer = await oneOf(server, name, random());
          calls++;
          // 503: the workers did not come, since somebody else took the model away.
          if (answer.status >= 500 && answer.status !== 503)
            violations.push(`management: ${answer.status} ${answer.text.slice(0, 300)}`);
        }
      };
      const user = async (number: number) => {
        while (Date.now() < end) {
          const target = { ...digits, model: NAMES[number % NAMES.length]! };
          const reply = await asker.ask(number % 2 === 0 ? 'http' : 'grpc', target, 0, `race-${number}-${asked++}`);
          if (!ALLOWED.has(reply.status))
            violations.push(`request to ${target.model}: ${reply.status} ${reply.body.slice(0, 300)}`);
          await pause(20);
        }
      };
      const work = [1, 2, 3].map((number) => manager(options.seed * 10 + number));
      const users = [0, 1].map(user);
      const all = Promise.all([...work, ...users]);
      await Promise.race([
        all,
        pause(end - Date.now() + 60_000, undefined, { ref: false }).then(() => violations.push('a call hangs')),
      ]);
      const tally = await load.stop();
      violations.push(...tally.violations().map((text) => `the other model: ${text}`));
      for (const name of NAMES) {
        const answer = await send('DELETE', `${server.management}/models/${name}`);
        if (answer.status !== 200 && answer.status !== 404) violations.push(`the last removal: ${answer.status} ${answer.text}`);
      }
      const listed = (await get(`${server.management}/models`)).json as { models: Array<{ modelName: string }> };
      if (listed.models.length !== 1) violations.push(`left: ${listed.models.map(({ modelName }) => modelName).join(', ')}`);
      const settled = async () => {
        const now = [(await childrenOf(server.pid)).length, await entries(server)];
        return now[0] === children && now[1] === unpacked ? true : undefined;
      };
      await until(settled, 'only what was there before is left', 30_000).catch(async () => {
        const now = (await childrenOf(server.pid)).length;
        violations.push(`${now} children (${children} before), ${await entries(server)} temporary entries (${unpacked} before)`);
      });
      return {
        figures: { 'management calls': calls, 'requests to them': asked, answers: tally.answers, bad: tally.bad },
        violations: violations.slice(0, 20),
      };
    } finally {
      asker.close();
      await server.stop();
    }
  },
};

async function oneOf({ management }: Instance, name: string, chance: number): Promise<Answer> {
  const model = `${management}/models/${name}`;
  if (chance < 0.3)
    return await send('POST', `${management}/models?url=${name}.mar&model_name=${name}&initial_workers=1&synchronous=true`);
  if (chance < 0.45)
    return await send('POST', `${management}/models?url=${name}.mar&model_name=${name}&initial_workers=1&synchronous=false`);
  if (chance < 0.6) return await send('DELETE', model);
  if (chance < 0.8) return await send('PUT', `${model}?min_worker=${Math.round(chance * 100) % 3}&max_worker=3&synchronous=true`);
  return await get(model);
}

/** Files and folders below the temporary folder, all levels. */
async function entries({ temp }: Instance): Promise<number> {
  return (await readdir(temp, { recursive: true })).length;
}
