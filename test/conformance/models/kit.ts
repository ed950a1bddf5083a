import { setTimeout as sleep } from 'node:timers/promises';
import { defineHandler, type HandlerResult } from '@onnxserve/handler-kit';
import { hostOutOfMemory, modes } from './results.js';
import { argumentsOf, rowOf } from './row.js';

/** The archive's own section: a fixed mode, and what goes wrong while loading. */
interface KitConfig {
  readonly mode?: string;
  readonly load?: 'runtime-error' | 'value-error' | 'out-of-memory' | 'exit' | 'sleep';
}

let calls = 0;

/** The one model behind most recordings: the request says what it should do. */
export default defineHandler<KitConfig>({
  async load(ctx) {
    const config = (ctx.model.config.kit ?? {}) as KitConfig;
    switch (config.load) {
      case 'runtime-error':
        throw new Error('kit cannot load');
      case 'value-error':
        throw new TypeError('kit got a bad value while loading');
      case 'out-of-memory':
        throw new Error(hostOutOfMemory);
      case 'exit':
        process.exit(7);
        break;
      case 'sleep':
        await sleep(6000);
        break;
      case undefined:
        break;
    }
    return config;
  },

  describe: () => ({ kit: 'customized metadata', n: [1, 2] }),

  async handle(batch, ctx) {
    const n = calls++;
    const rows = batch.map(({ request }) => rowOf(request));
    const given = rows.map(argumentsOf);
    const args = given[0] ?? {};
    const mode = ctx.state.mode ?? (typeof args.mode === 'string' ? args.mode : 'echo');
    const run = modes[mode];
    if (!run) throw new Error(`unknown mode ${mode}`);
    const answer = await run({ batch, rows, given, args, n });
    if ('each' in answer) return rows.map(() => answer.each);
    return answer.list as HandlerResult[];
  },
});
