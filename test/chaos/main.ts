import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killAll } from './instance.js';
import { makeKit } from './models.js';
import { readOptions, usage } from './options.js';
import type { Outcome } from './part.js';
import { parts } from './parts.js';
import { type Finished, Results, table } from './results.js';

const options = readOptions(process.argv.slice(2));
if (options === 'help') console.log(usage);
else {
  const known = parts.map(({ name }) => name);
  const unknown = options.only?.filter((name) => !known.includes(name)) ?? [];
  if (unknown.length > 0) throw new Error(`--only ${unknown.join(',')}: the parts are ${known.join(', ')}`);
  const chosen = parts.filter(({ name }) =>
    options.only === undefined ? name !== 'soak' || options.soakMinutes !== undefined : options.only.includes(name),
  );
  const base = await mkdtemp(join(tmpdir(), 'onnxserve-chaos-'));
  const end = () => {
    killAll();
    rmSync(base, { recursive: true, force: true });
    process.exit(130);
  };
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  try {
    const results = new Results(options.results);
    const earlier = options.full && !options.fresh ? await results.read() : [];
    if (!options.full || options.fresh) await results.clear();
    const kit = await makeKit(base, options.minilm);
    const finished: Finished[] = [];
    for (const part of chosen) {
      const before = earlier.find(({ name, full, outcome }) => full && name === part.name && outcome.violations.length === 0);
      if (before !== undefined) {
        console.log(`== ${part.name}: passed on ${before.date}, not run again (--fresh would)`);
        finished.push(before);
        continue;
      }
      console.log(`== ${part.name}: ${part.does}`);
      const began = Date.now();
      const folder = await mkdtemp(join(base, `${part.name}-`));
      let outcome: Outcome;
      try {
        const say = (line: string) => console.log(`   ${line}`);
        outcome = await part.run({ options, kit, folder, say });
      } catch (error) {
        outcome = { figures: {}, violations: [error instanceof Error ? (error.stack ?? error.message) : String(error)] };
      }
      const seconds = (Date.now() - began) / 1000;
      const done: Finished = {
        name: part.name,
        does: part.does,
        date: new Date().toISOString(),
        seconds,
        full: options.full,
        outcome,
      };
      finished.push(done);
      await results.add(done);
      await rm(folder, { recursive: true, force: true });
      for (const line of outcome.violations) console.log(`   VIOLATION ${line}`);
      if (outcome.skipped !== undefined) console.log(`   skipped: ${outcome.skipped}`);
    }
    console.log(table(finished));
    if (finished.some(({ outcome }) => outcome.violations.length > 0)) process.exitCode = 1;
  } finally {
    killAll();
    await rm(base, { recursive: true, force: true });
  }
}
