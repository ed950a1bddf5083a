import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Bench, startBench } from './bench.js';
import { mutate } from './mutate.js';
import { type Options, readOptions, usage } from './options.js';
import { Random } from './random.js';
import type { Target } from './target.js';
import { targets } from './targets.js';

const corpus = new URL('../../test/fuzz/corpus/', import.meta.url);
const failures = new URL('fuzz-failures/', import.meta.url);
const batch = 50;
const atOnce = 8;
/** Cases of each target in the short run. */
const short = 500;
/** A run gives up after so many violations: the rest is mostly the same. */
const enough = 25;
/** Bytes that the front may grow by between the middle of a target's cases and their end. */
const growth = 96 * 1024 * 1024;

interface Case {
  readonly label: string;
  readonly bytes: Buffer;
}

class Run {
  violations = 0;
  cases = { wire: 0, decoder: 0 };
  /** What came of the cases of this target. */
  outcomes = new Map<string, number>();

  constructor(
    readonly options: Options,
    readonly bench: Bench,
  ) {}

  async target(target: Target, count: number): Promise<void> {
    const kept = await corpusOf(target.name);
    const seeds = [...(target.seeds ?? []), ...kept.map(({ bytes }) => bytes)];
    const began = performance.now();
    const before = this.violations;
    this.outcomes = new Map();
    if (this.options.cases === undefined)
      await this.play(target, this.options.file === undefined ? kept : await fileCase(this.options.file));
    const [first, last] = this.options.file === undefined ? (this.options.cases ?? [1, count]) : [1, 0];
    let middle = 0;
    for (let at = first; at <= last && this.violations < enough; at += batch) {
      const cases: Case[] = [];
      for (let number = at; number <= Math.min(last, at + batch - 1); number++)
        cases.push({ label: String(number), bytes: caseOf(target, seeds, this.options.seed, number) });
      await this.play(target, cases);
      if (target.kind === 'wire' && middle === 0 && at - first >= (last - first) / 2) middle = await this.bench.memory();
    }
    if (middle > 0 && count > batch) {
      const grown = (await this.bench.memory()) - middle;
      if (grown > growth)
        this.violated(target, `1-${count}`, undefined, `memory of the front grew by ${Math.round(grown / 2 ** 20)} MiB`);
    }
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const found = this.violations - before;
    const tally = [...this.outcomes]
      .sort(([, a], [, b]) => b - a)
      .map(([outcome, times]) => `${outcome}: ${times}`)
      .join(', ');
    console.log(
      `${target.name.padEnd(18)} ${String(Math.max(0, last - first + 1)).padStart(6)} cases  ${seconds.padStart(6)} s  ${tally}${found > 0 ? `  ${found} violations` : ''}`,
    );
  }

  /** Plays a few at once, then asks whether all is as it was. */
  async play(target: Target, cases: readonly Case[]): Promise<void> {
    const waiting = [...cases];
    const lane = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        try {
          this.cases[target.kind]++;
          const outcome = await target.play(next.bytes, this.bench);
          this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
        } catch (error) {
          this.violated(target, next.label, next.bytes, describe(error));
        }
      }
    };
    await Promise.all(Array.from({ length: target.kind === 'wire' ? atOnce : 1 }, lane));
    if (target.kind === 'decoder' || cases.length === 0) return;
    try {
      await this.bench.check();
    } catch (error) {
      const label = `${cases[0]?.label}-${cases.at(-1)?.label}`;
      this.violated(target, label, undefined, `after the cases ${label}: ${describe(error)}`);
    }
  }

  violated(target: Target, label: string, bytes: Buffer | undefined, what: string): void {
    this.violations++;
    const { seed } = this.options;
    console.error(`\nVIOLATION ${target.name} seed ${seed} case ${label}: ${what}`);
    if (bytes !== undefined)
      console.error(`  input (${bytes.length} bytes): ${JSON.stringify(bytes.toString('latin1', 0, 400))}`);
    const generated = /^\d+(-\d+)?$/.test(label);
    console.error(`  replay: npm run fuzz -- --only ${target.name} --seed ${seed}${generated ? ` --case ${label}` : ''}`);
    if (bytes !== undefined && generated) void keep(`${target.name}-${seed}-${label}`, bytes);
  }
}

async function keep(name: string, bytes: Buffer): Promise<void> {
  await mkdir(failures, { recursive: true });
  await writeFile(new URL(encodeURIComponent(name), failures), bytes);
}

const describe = (error: unknown) =>
  error instanceof Error ? (error.name === 'Violation' ? error.message : (error.stack ?? error.message)) : String(error);

function caseOf(target: Target, seeds: readonly Buffer[], seed: string, number: number): Buffer {
  const random = new Random(`${seed}/${target.name}/${number}`);
  if (seeds.length > 0 && random.chance(0.35)) return mutate(random.pick(seeds), random);
  const made = target.make(random);
  return random.chance(0.25) ? mutate(made, random) : made;
}

async function corpusOf(name: string): Promise<Case[]> {
  const folder = new URL(`${name}/`, corpus);
  const names = await readdir(folder).catch(() => [] as string[]);
  return await Promise.all(
    names.sort().map(async (file) => ({ label: `corpus/${name}/${file}`, bytes: await readFile(new URL(file, folder)) })),
  );
}

async function fileCase(path: string): Promise<Case[]> {
  return [{ label: path, bytes: await readFile(path) }];
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options === 'help') return console.log(usage);
  if (options === 'list') return console.log(targets.map(({ name, kind }) => `${name} (${kind})`).join('\n'));
  const chosen = targets.filter(({ name }) => options.only?.includes(name) ?? true);
  if (chosen.length === 0) throw new Error(`no target of that name; there are ${targets.map(({ name }) => name).join(', ')}`);
  const shares =
    chosen.filter(({ kind, slow }) => kind === 'wire' && slow !== true).reduce((sum, { share = 1 }) => sum + share, 0) || 1;
  const count = (target: Target) =>
    target.slow === true
      ? options.requests === undefined
        ? 16
        : 500
      : options.requests === undefined
        ? short
        : Math.max(short, Math.ceil((options.requests * (target.share ?? 1)) / shares));
  const bench = await startBench();
  const run = new Run(options, bench);
  try {
    for (const target of chosen) if (run.violations < enough) await run.target(target, count(target));
  } finally {
    await bench.stop();
  }
  const { wire, decoder } = run.cases;
  console.log(`seed ${options.seed}: ${wire} requests, ${decoder} inputs of decoders, ${run.violations} violations`);
  if (run.violations > 0) {
    console.error(`The bytes of the cases are in ${fileURLToPath(failures)}.`);
    process.exitCode = 1;
  }
}
await main();
