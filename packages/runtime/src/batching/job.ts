import type { SequenceEndReason } from '@onnxserve/handler-kit';
import type { ServeError } from '../domain/errors.js';
import type { PredictReply, PredictRequest } from '../domain/request.js';

/** A request in the hands of the batcher. Settled exactly once; later attempts are ignored. */
export interface Job {
  readonly id: number;
  readonly request: PredictRequest;
  /** Monotonic nanoseconds. */
  readonly enqueuedAt: number;
  readonly deadline: number | undefined;
  state: JobState;
  /** It was with a worker that died or hung, and may have been the reason: it is handed out again alone. */
  suspect: boolean;
  /** The sequence that it is a member of. */
  sequence: Sequence | undefined;
  /** Ends the watch over its client and its deadline. */
  unwatch: (() => void) | undefined;
  readonly resolve: (reply: PredictReply) => void;
  readonly reject: (error: ServeError) => void;
}

export type JobState =
  | { readonly at: 'queue' }
  | { readonly at: 'worker'; readonly slot: Slot; running: boolean }
  | { readonly at: 'settled' };

/** A ready worker as the batcher sees it. */
export interface Slot {
  readonly workerId: string;
  /** Items handed over and not yet answered. */
  readonly jobs: Set<Job>;
  /** False while the worker is on its way out. */
  accepting: boolean;
  /** Monotonic nanoseconds of the last sign of progress. */
  progressAt: number;
  send(jobs: readonly Job[]): void;
  cancel(job: Job): void;
  /** Asks for up to `count` items back that are not in a run. */
  recall(count: number): void;
  /** The state that it keeps for a sequence is no longer needed. */
  endSequence(number: number, reason: SequenceEndReason): void;
  /** No sequence is left that kept it from stopping. */
  sequencesEnded(): void;
}

/** Requests that share state, answered one after the other by one worker. */
export interface Sequence {
  readonly id: string;
  /** Tells it from an earlier one of the same id, everywhere. */
  number: number;
  /** Its client begins sequences by a mark, so it can be told to begin anew. */
  marked: boolean;
  /** The worker that keeps its state; undefined until there is one. */
  slot: Slot | undefined;
  /** In order; the first stands in a queue for its worker unless one is there already. Those whose client has left keep only their end mark. */
  readonly waiting: Job[];
  /** Of those, the ones that somebody waits for. */
  live: number;
  /** The one at the worker. */
  active: Job | undefined;
  /** A member was handed to a worker, so there may be state. */
  handed: boolean;
  /** A member has run: whoever takes the worker takes the sequence. */
  begun: boolean;
  /** Why it takes no more members and ends with the active one. */
  ending: 'timeout' | 'lost' | undefined;
  /** Monotonic nanoseconds. */
  startedAt: number;
  idleSince: number;
  timer: NodeJS.Timeout | undefined;
}
