import type { Measured } from './load.js';

/** One point: a workload at a number of connections. */
export interface Point {
  readonly workload: string;
  readonly connections: number;
  readonly server: readonly Measured[];
  /** Of the echo server, in the same rounds. */
  readonly echo: readonly Measured[];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Medians over the rounds, and the median of the ratios of each round. */
export function summary({ workload, connections, server, echo }: Point) {
  const of = (key: 'requestsPerSecond' | 'p50' | 'p99') => median(server.map((it) => it[key]));
  const ratios = server.map((it, round) => it.requestsPerSecond / (echo[round]?.requestsPerSecond ?? Number.NaN));
  return {
    workload,
    connections,
    requestsPerSecond: of('requestsPerSecond'),
    p50: of('p50'),
    p99: of('p99'),
    failed: server.reduce((sum, it) => sum + it.failed, 0),
    echo: median(echo.map((it) => it.requestsPerSecond)),
    ratio: median(ratios),
  };
}

export function table(points: readonly Point[]): string {
  const head = ['workload', 'connections', 'req/s', 'p50 ms', 'p99 ms', 'failed', 'echo req/s', 'of echo'];
  const rows = points.map((point) => {
    const { workload, connections, requestsPerSecond, p50, p99, failed, echo, ratio } = summary(point);
    return [
      workload,
      String(connections),
      requestsPerSecond.toFixed(requestsPerSecond < 1000 ? 1 : 0),
      String(p50),
      String(p99),
      String(failed),
      echo.toFixed(0),
      ratio.toFixed(ratio < 0.1 ? 3 : 2),
    ];
  });
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join(' | ')} |`;
  const rule = `|${widths.map((width, column) => (column === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}
