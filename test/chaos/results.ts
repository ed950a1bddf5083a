import { appendFile, mkdir, readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Outcome } from './part.js';

/** A part that has run. */
export interface Finished {
  readonly name: string;
  readonly does: string;
  readonly date: string;
  readonly seconds: number;
  /** Of the long run. */
  readonly full: boolean;
  readonly outcome: Outcome;
}

/** Results as JSON lines, so that an interrupted run can go on. */
export class Results {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  async read(): Promise<Finished[]> {
    try {
      const lines = (await readFile(this.#path, 'utf8')).split('\n').filter((line) => line !== '');
      return lines.map((line) => JSON.parse(line) as Finished);
    } catch {
      return []; // none yet
    }
  }

  async clear(): Promise<void> {
    await rm(this.#path, { force: true });
  }

  async add(finished: Finished): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true });
    await appendFile(this.#path, `${JSON.stringify(finished)}\n`);
  }
}

/** One line for each part: verdict, time, figures. */
export function table(finished: readonly Finished[]): string {
  const rows = finished.map(({ name, seconds, outcome }) => {
    const { violations, skipped, figures } = outcome;
    const verdict =
      violations.length > 0 ? 'FAILED' : skipped !== undefined && Object.keys(figures).length === 0 ? 'skipped' : 'passed';
    const shown = Object.entries(figures).map(([what, value]) => `${what} ${value}`);
    const why = skipped === undefined ? [] : [`skipped: ${skipped}`];
    return [name, verdict, `${seconds.toFixed(0)} s`, [...shown, ...why].join(' · ')];
  });
  const widths = [0, 1, 2].map((column) => Math.max(0, ...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
  const failed = finished.filter(({ outcome }) => outcome.violations.length > 0).length;
  return [
    '',
    ...lines,
    '',
    failed === 0 ? `${finished.length} parts, no violation` : `${failed} of ${finished.length} parts failed`,
  ].join('\n');
}
