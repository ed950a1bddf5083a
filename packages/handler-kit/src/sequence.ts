/** Where a request stands in a sequence: requests that share state, answered one after the other by one worker. */
export interface SequencePlace {
  /** The client's own id, or `ts-seq-<uuid>` of the server. */
  readonly id: string;
  /** The request carries the start mark. */
  readonly start: boolean;
  /** The request carries the end mark. */
  readonly end: boolean;
}

/**
 * Why a sequence ended.
 * - `end`: a request with the end mark was answered
 * - `restart`: a request of the same id carries the start mark
 * - `idle`: nothing came for `sequenceMaxIdleMSec`
 * - `timeout`: it lasted `sequenceTimeoutMSec`
 * - `abandoned`: its first request failed, and its client never learnt the id that the server had chosen
 * - `stop`: the worker stops
 */
export type SequenceEndReason = 'end' | 'restart' | 'idle' | 'timeout' | 'abandoned' | 'stop';

/** A sequence as the handler of one of its requests sees it. */
export interface SequenceHandle<SequenceState> extends SequencePlace {
  /** What `startSequence` returned, or what was put here since. It stays in the worker until the sequence ends. */
  state: SequenceState;
}
