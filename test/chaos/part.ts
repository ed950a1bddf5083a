import type { Options } from './options.js';
import type { Kit } from './models.js';

export interface Outcome {
  /** What was measured, in the order of the table. */
  readonly figures: Readonly<Record<string, string | number>>;
  /** What should not have been; empty: passed. */
  readonly violations: readonly string[];
  /** Why the part, or a piece of it, could not run here. */
  readonly skipped?: string;
}

export interface Context {
  readonly options: Options;
  readonly kit: Kit;
  /** A folder of the part's own, removed afterwards. */
  readonly folder: string;
  readonly say: (line: string) => void;
}

/** One kind of disturbance. */
export interface Part {
  readonly name: string;
  readonly does: string;
  run(context: Context): Promise<Outcome>;
}
