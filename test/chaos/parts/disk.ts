import { execFile } from 'node:child_process';
import { constants, copyFile, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { get, send } from '../../helpers/client.js';
import { Asker } from '../ask.js';
import { launch } from '../instance.js';
import { learn, Load } from '../load.js';
import type { Context, Outcome, Part } from '../part.js';

const SIZE_MB = 24;

/** No byte is left where logs and temporary files are. */
export const disk: Part = {
  name: 'disk',
  does: 'the disk of logs and temporary files is full',
  async run({ kit, folder, options }: Context): Promise<Outcome> {
    const { digits, store } = kit;
    const small = join(folder, 'small');
    await mkdir(small);
    try {
      await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', small]);
    } catch (error) {
      const why = (error as Error).message.trim().split('\n').at(-1);
      return { figures: {}, violations: [], skipped: `no small file system could be mounted, which takes root: ${why}` };
    }
    const violations: string[] = [];
    try {
      const config = { temp_directory: join(small, 'tmp'), log_location: join(small, 'logs') };
      const server = await launch({ folder, store, load: [digits.model], config });
      const asker = new Asker(server.inference, server.grpcInference);
      try {
        await learn(asker, [digits]);
        const load = new Load(asker, [{ target: digits, rate: 40 }]);
        await pause(1000);
        const filled = await fill(join(small, 'filler'));
        await pause(options.full ? 30_000 : 2000);
        const [victim] = (await server.describe(digits.model)).workers;
        process.kill(victim!.pid, 'SIGKILL');
        await pause(1500);
        await server.untilReady(digits.model);
        await copyFile(join(store, 'impatient.mar'), join(store, 'late.mar'), constants.COPYFILE_FICLONE);
        const register = () =>
          send('POST', `${server.management}/models?url=late.mar&model_name=late&initial_workers=1&synchronous=true`);
        const full = await register();
        if (full.status < 400 || !/ENOSPC|space|full/i.test(full.text)) {
          violations.push(`a registration without room was answered with ${full.status} ${full.text.slice(0, 300)}`);
        }
        const ping = await get(`${server.inference}/health/live`);
        if (ping.status !== 200) violations.push(`/health/live with a full disk: ${ping.status}`);
        await rm(join(small, 'filler'));
        await pause(500);
        const later = await register();
        if (later.status !== 200) violations.push(`with room again: ${later.status} ${later.text.slice(0, 300)}`);
        const tally = await load.stop();
        violations.push(...tally.violations());
        return {
          figures: {
            'MB filled': (filled / 1e6).toFixed(0),
            answers: tally.answers,
            bad: tally.bad,
            'refused register': full.status,
          },
          violations,
        };
      } finally {
        asker.close();
        await server.stop();
      }
    } finally {
      await promisify(execFile)('umount', ['-l', small]);
    }
  },
};

/** Writes until nothing more fits. @returns bytes */
async function fill(path: string): Promise<number> {
  const file = await open(path, 'w');
  let written = 0;
  // The last bytes one by one: a line of a log needs little.
  for (const size of [65_536, 4096, 1]) {
    try {
      for (;;) written += (await file.write(Buffer.alloc(size))).bytesWritten;
    } catch {
      continue; // no room for so much
    }
  }
  await file.close().catch(() => undefined);
  return written;
}
