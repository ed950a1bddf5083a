import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeArchive } from './archive.js';
import { closedLoop, type Measured } from './load.js';
import { readOptions, usage, type Options } from './options.js';
import { startEcho, startWorkload, type Contestant } from './server-process.js';
import { summary, table, type Point } from './table.js';
import { workload, type Workload } from './workloads.js';

/** Seconds before the first measured point of a server. */
const WARM_UP = 1;

interface Series {
  readonly workload: Workload;
  readonly points: Map<number, { server: Measured[]; echo: Measured[] }>;
}

async function measure(one: Contestant, it: Workload, options: Options, add: (connections: number, measured: Measured) => void) {
  await closedLoop(one.url, it, 8, WARM_UP);
  for (const connections of options.connections) add(connections, await closedLoop(one.url, it, connections, options.seconds));
}

/** One round of a workload: server and echo one after the other, the order turning from round to round. */
async function round(series: Series, number: number, options: Options, store: string, folder: string): Promise<void> {
  const { workload: it, points } = series;
  const sides = [
    ['server', () => startWorkload(it.name, store, folder)],
    ['echo', () => startEcho()],
  ] as const;
  for (const [side, start] of number % 2 === 0 ? sides : [...sides].reverse()) {
    const contestant = await start();
    try {
      await measure(contestant, it, options, (connections, measured) => {
        points.get(connections)?.[side].push(measured);
        const rate = measured.requestsPerSecond.toFixed(1);
        const failed = measured.failed === 0 ? '' : `, ${measured.failed} failed ${JSON.stringify(measured.statuses)}`;
        console.error(
          `round ${number + 1} ${it.name} ${side === 'echo' ? 'echo' : 'onnxserve'} c=${connections}: ${rate} req/s, p99 ${measured.p99} ms${failed}`,
        );
      });
    } finally {
      await contestant.stop();
    }
  }
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options === undefined) {
    console.log(usage);
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), 'onnxserve-bench-'));
  try {
    const store = join(folder, 'store');
    const all: Series[] = [];
    for (const name of options.workloads) {
      const it = workload(name, options.models);
      if ('missing' in it) {
        console.error(`${name} is left out: there is no ${it.missing} (--models DIR)`);
        continue;
      }
      console.error(`archiving ${name}`);
      await makeArchive(it, options, folder, store);
      all.push({ workload: it, points: new Map(options.connections.map((count) => [count, { server: [], echo: [] }])) });
    }
    for (let number = 0; number < options.rounds; number++)
      for (const series of all) await round(series, number, options, store, folder);
    const points = all.flatMap((series): Point[] =>
      [...series.points].map(([connections, { server, echo }]) => ({
        workload: series.workload.name,
        connections,
        server,
        echo,
      })),
    );
    const cpu = cpus()[0]?.model ?? 'unknown processor';
    console.log(
      `${availableParallelism()} CPUs (${cpu}), Node ${process.version}, ${options.workers} workers, batches of up to ${options.batchSize}, median of ${options.rounds} rounds of ${options.seconds} s\n`,
    );
    console.log(table(points));
    if (options.json !== undefined) {
      const figures = points.map((point) => ({ ...summary(point), rounds: { server: point.server, echo: point.echo } }));
      await writeFile(
        options.json,
        `${JSON.stringify({ options, cpu, node: process.version, points: figures }, undefined, 2)}\n`,
      );
    }
    if (points.some((point) => summary(point).failed > 0)) process.exitCode = 1;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

await main();
