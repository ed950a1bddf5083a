import type { SequenceMark } from '../domain/request.js';
import type { Sequence } from './job.js';

export interface SequenceSettings {
  /** Sequences at the same time, over all workers. */
  readonly maxNumSequence: number;
  /** Members of one sequence that may wait. */
  readonly maxSequenceJobQueueSize: number;
  /** Milliseconds; 0: no limit. */
  readonly sequenceMaxIdleMSec: number;
  /** Milliseconds; 0: no limit. */
  readonly sequenceTimeoutMSec: number;
}

export function newSequence(mark: SequenceMark, number: number, now: number): Sequence {
  return {
    id: mark.id,
    number,
    marked: mark.start,
    slot: undefined,
    waiting: [],
    live: 0,
    active: undefined,
    handed: false,
    begun: false,
    ending: undefined,
    startedAt: now,
    idleSince: now,
    timer: undefined,
  };
}

export type Expiry = { readonly kind: 'expired'; readonly by: 'idle' | 'timeout' } | { readonly kind: 'in'; readonly ms: number };

/** Whether a sequence is over at `now`, or when to look again; undefined: nothing limits it as it is. */
export function expiry(sequence: Sequence, settings: SequenceSettings, now: number): Expiry | undefined {
  const { sequenceMaxIdleMSec, sequenceTimeoutMSec } = settings;
  const total = sequenceTimeoutMSec > 0 ? sequenceTimeoutMSec - (now - sequence.startedAt) / 1e6 : Infinity;
  const idles = sequence.active === undefined && sequence.live === 0;
  const idle = sequenceMaxIdleMSec > 0 && idles ? sequenceMaxIdleMSec - (now - sequence.idleSince) / 1e6 : Infinity;
  const ms = Math.min(total, idle);
  if (ms === Infinity) return undefined;
  if (ms > 0) return { kind: 'in', ms };
  return { kind: 'expired', by: total <= idle ? 'timeout' : 'idle' };
}
