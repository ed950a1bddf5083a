import type { Bench } from './bench.js';
import type { Random } from './random.js';

/** A boundary of a protocol that takes bytes from strangers. */
export interface Target {
  readonly name: string;
  /** `wire`: over a socket to a real server; `decoder`: the decoder alone, in this process. */
  readonly kind: 'wire' | 'decoder';
  /** How many cases, measured against the others; 1 unless given. */
  readonly share?: number;
  /** A process is started for each case: few of them, never more than 500. */
  readonly slow?: boolean;
  /** Inputs that are right, or once broke something; they are played as they are, and mutated. */
  readonly seeds?: readonly Buffer[];
  /** The bytes of a case. */
  make(random: Random): Buffer;
  /** @returns what came of it, such as a status, for the tally @throws {Violation} */
  play(input: Buffer, bench: Bench): Promise<string>;
}

/** What must not happen. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

/** Milliseconds within which everything must have been answered. */
export const answerLimit = 10_000;

/** @throws {Violation} when it takes longer than the limit */
export async function within<T>(work: Promise<T>, what: string, limit = answerLimit): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Violation(`hang: ${what} took more than ${limit} ms`)), limit);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
