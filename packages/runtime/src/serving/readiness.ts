import type { PlaceFacts } from '../workers/worker.js';

/**
 * What a model can do for a client now. `loading`: its first workers are loading. `recovering`: fewer workers than it wants; their
 * replacements are on their way, and what they were running is run again. `failed`: fewer workers than it wants, and a start has failed or
 * takes longer than twice what a load takes. `no-workers`: none are wanted and there are none.
 */
export const modelStates = ['loading', 'ready', 'recovering', 'failed', 'no-workers'] as const;
export type ModelState = (typeof modelStates)[number];

export interface ModelFacts {
  readonly minWorkers: number;
  /** The workers that take requests; spare ones are not among them. */
  readonly places: readonly PlaceFacts[];
  /** It has had all of its workers before. */
  readonly loadedBefore: boolean;
  /** Seconds from a start to a loaded model, as measured; undefined: never yet. */
  readonly loadSeconds: number | undefined;
}

/** A replacement is never called late before this, however fast the model loads. Milliseconds. */
const LEAST_PATIENCE_MS = 2_000;

/** @param now milliseconds since the epoch */
export function modelState({ minWorkers, places, loadedBefore, loadSeconds }: ModelFacts, now: number): ModelState {
  const ready = places.filter((place) => place.ready).length;
  if (minWorkers === 0) return ready > 0 ? 'ready' : 'no-workers';
  if (ready >= minWorkers) return 'ready';
  const missing = places.filter((place) => !place.ready);
  if (missing.some((place) => place.failed)) return 'failed';
  if (!loadedBefore) return 'loading';
  const patience = Math.max(LEAST_PATIENCE_MS, 2_000 * (loadSeconds ?? 0));
  return missing.some((place) => now - place.downSince > patience) ? 'failed' : 'recovering';
}

/** True when requests for the model may be sent here. */
export function servesNow(state: ModelState): boolean {
  return state === 'ready' || state === 'recovering';
}

export interface ModelReadiness {
  readonly name: string;
  readonly version: string;
  readonly state: ModelState;
  readonly readyWorkers: number;
  readonly minWorkers: number;
  readonly reason?: string;
  /** Why it is not ready, a sentence. */
  readonly message?: string;
}

export type Phase = 'loading' | 'serving' | 'draining';

export interface Readiness {
  /** False: the front itself cannot serve. */
  readonly live: boolean;
  readonly ready: boolean;
  readonly phase: Phase;
  readonly problems: readonly string[];
  readonly models: readonly ModelReadiness[];
}

/**
 * Whether the server may be sent traffic.
 * @param counted models that have to serve: those of the start, and those that have served before
 * @param notRegistered sentences on start-up models that could not even be registered
 */
export function serverReadiness(given: {
  readonly phase: Phase;
  readonly counted: readonly ModelReadiness[];
  readonly notRegistered: readonly string[];
  readonly blocked: string | undefined;
}): Readiness {
  const { phase, counted, notRegistered, blocked } = given;
  const problems = [...notRegistered, ...counted.flatMap(({ message }) => message ?? [])];
  if (phase === 'loading') problems.unshift('start-up models are loading');
  if (phase === 'draining') problems.unshift('the server is shutting down');
  if (blocked !== undefined) problems.unshift(blocked);
  return { live: blocked === undefined, ready: problems.length === 0, phase, problems, models: counted };
}
