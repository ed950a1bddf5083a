/**
 * `works`: as it is. `differs`: works, and something about it is not as it was. `work`: somebody has to do something first.
 * `error`: it cannot be read.
 */
export type MovingStatus = 'works' | 'differs' | 'work' | 'error';

/** A file that `--write` makes for a model, beside what the archive holds. */
export interface ProjectFile {
  readonly name: string;
  readonly text: string;
}

/** One thing to do, in the order of the list it stands in. */
export interface MovingStep {
  readonly what: string;
  /** Shell commands that do it, typed where the check was run. */
  readonly commands: readonly string[];
  /** Code that the step is about. */
  readonly code?: string;
}

export interface MovingFinding {
  readonly status: MovingStatus;
  /** What it is about: a file, a setting, a metric. */
  readonly subject: string;
  /** File and line. */
  readonly where?: string;
  readonly message: string;
  readonly notes: readonly string[];
  readonly steps: readonly MovingStep[];
}

export interface MovingSection {
  readonly title: string;
  readonly findings: readonly MovingFinding[];
}

export interface MovingReport {
  readonly directory: string;
  readonly sections: readonly MovingSection[];
  /** How many findings there are of each status. */
  readonly summary: Readonly<Record<MovingStatus, number>>;
  /** Commands that serve what works, once the steps are done. */
  readonly serve: readonly string[];
}

/** A finding without notes and steps, unless they are given. */
export function finding(
  status: MovingStatus,
  subject: string,
  message: string,
  more: Partial<Pick<MovingFinding, 'where' | 'notes' | 'steps'>> = {},
): MovingFinding {
  return { status, subject, message, notes: [], steps: [], ...more };
}

export function countByStatus(sections: readonly MovingSection[]): Record<MovingStatus, number> {
  const counts = { works: 0, differs: 0, work: 0, error: 0 };
  for (const { findings } of sections) for (const { status } of findings) counts[status]++;
  return counts;
}

/** Text as one word of a shell command. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
