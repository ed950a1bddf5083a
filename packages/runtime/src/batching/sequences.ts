import type { SequenceEndReason } from '@onnxserve/handler-kit';
import type { ServeError } from '../domain/errors.js';
import { monotonicNow, type SequenceMark } from '../domain/request.js';
import { EndedSequences } from './ended-sequences.js';
import type { Job, Sequence, Slot } from './job.js';
import { expiry, newSequence } from './sequence.js';
import { ended, queueFull, type SequenceModel, tooMany } from './sequence-refusals.js';
import { SequenceQueue } from './sequence-queue.js';
import { LONGEST_TIMER } from './watch.js';

export interface SequencesOptions {
  readonly settings: SequenceModel;
  /** Answers a member that no worker will take. */
  readonly fail: (job: Job, error: ServeError) => void;
  /** Something may go to a worker now. */
  readonly changed: () => void;
}

let lastNumber = 0;

/**
 * The sequences of one model version. Each has a worker that keeps its state and at most one member there, so members run in order
 * and a batch holds one of each. A sequence ends by its end mark once that member is answered, by idling, by its age, or with its worker.
 */
export class Sequences {
  readonly #options: SequencesOptions;
  readonly #sequences = new Map<string, Sequence>();
  readonly #ended = new EndedSequences();
  readonly #retiring = new Set<Slot>();
  /** The first members of sequences that have none at a worker. */
  readonly queue = new SequenceQueue(this.#retiring);
  #waiting = 0;
  #closed = false;

  constructor(options: SequencesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sequences.size;
  }

  /** Members that wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** When the oldest waiting member came, monotonic nanoseconds; undefined when none waits. */
  get oldestAt(): number | undefined {
    let oldest: number | undefined;
    for (const { waiting } of this.#sequences.values()) {
      const first = waiting.find((job) => job.state.at === 'queue');
      if (first !== undefined && (oldest === undefined || first.enqueuedAt < oldest)) oldest = first.enqueuedAt;
    }
    return oldest;
  }

  /** The sequence has a worker, so whether others could be had is no matter. */
  placed(id: string): boolean {
    return this.#sequences.get(id)?.slot !== undefined;
  }

  refusal({ id, start }: SequenceMark): ServeError | undefined {
    const { settings } = this.#options;
    const sequence = this.#sequences.get(id);
    if (sequence?.ending !== undefined) return ended(settings, id, sequence.ending);
    if (sequence !== undefined) return sequence.live >= settings.maxSequenceJobQueueSize ? queueFull(settings, id) : undefined;
    const by = start ? undefined : this.#ended.get(id);
    if (by !== undefined) return ended(settings, id, by);
    return this.#sequences.size >= settings.maxNumSequence ? tooMany(settings) : undefined;
  }

  /** A member that was not refused. */
  add(job: Job, mark: SequenceMark): void {
    let sequence = this.#sequences.get(mark.id);
    if (sequence === undefined) {
      sequence = newSequence(mark, ++lastNumber, monotonicNow());
      this.#sequences.set(mark.id, sequence);
      this.#ended.forget(mark.id);
      this.#arm(sequence);
    }
    job.sequence = sequence;
    sequence.waiting.push(job);
    sequence.live++;
    this.#waiting++;
    if (sequence.active === undefined && sequence.waiting.length === 1) this.#advance(sequence);
  }

  handed(job: Job, slot: Slot): void {
    const { sequence } = job;
    // A describe request belongs to none.
    if (sequence === undefined) return;
    sequence.waiting.shift();
    sequence.live--;
    this.#waiting--;
    sequence.active = job;
    sequence.handed = true;
    sequence.slot = slot;
  }

  /** The client of a waiting member has left. Its end mark stays. */
  abandoned(job: Job): void {
    const sequence = job.sequence!;
    const at = sequence.waiting.indexOf(job);
    if (at < 0) return;
    sequence.live--;
    this.#waiting--;
    if (at === 0 && sequence.active === undefined) {
      this.queue.remove(job, sequence);
      this.#advance(sequence);
      return;
    }
    const before = sequence.waiting[at - 1];
    const needed = isEnd(job) && (before === undefined || before.state.at === 'queue');
    if (!needed) sequence.waiting.splice(at, 1);
  }

  /** The worker has let go of a member that it was handed. */
  released(job: Job, ok: boolean): void {
    const { sequence } = job;
    if (sequence?.active !== job) return;
    sequence.active = undefined;
    const orphan = !ok && !sequence.begun && job.request.sequence?.made === true;
    sequence.begun = true;
    if (sequence.ending !== undefined) this.#finish(sequence, sequence.ending);
    else if (isEnd(job)) this.#over(sequence, 'end');
    // Nobody knows its id.
    else if (orphan) this.#over(sequence, 'abandoned');
    else this.#advance(sequence);
  }

  /** A member comes back from a worker that has not begun it. */
  putBack(job: Job): void {
    const sequence = job.sequence!;
    if (sequence.active !== job) return;
    if (job.state.at === 'settled') return this.released(job, false);
    sequence.active = undefined;
    job.state = { at: 'queue' };
    sequence.waiting.unshift(job);
    sequence.live++;
    this.#waiting++;
    if (sequence.ending === undefined) this.#advance(sequence);
    else this.#failMembers(sequence, sequence.ending);
  }

  /** The worker takes no new sequences. @returns true as long as those it has keep it from stopping */
  retire(slot: Slot): boolean {
    this.#retiring.add(slot);
    return this.queue.count(slot) > 0;
  }

  /** The worker is gone, and with it the sequences that it had begun; called while it still holds its items. */
  detach(slot: Slot): void {
    this.#retiring.delete(slot);
    for (const sequence of this.#sequences.values()) {
      if (sequence.slot !== slot) continue;
      const { active } = sequence;
      // One whose client has left may have run all the same.
      const ran = active?.state.at === 'settled' || (active?.state.at === 'worker' && active.state.running);
      if (sequence.begun || ran) this.#failMembers(sequence, 'lost');
      else {
        sequence.slot = undefined;
        sequence.handed = false;
        const [first] = sequence.waiting;
        if (active === undefined && first !== undefined) this.queue.push(first, sequence);
      }
    }
    this.queue.forget(slot);
  }

  /** Answers what waits for a first worker, because none will come. */
  failUnplaced(error: ServeError): void {
    for (const sequence of this.#sequences.values()) if (sequence.slot === undefined) this.#failWaiting(sequence, error);
  }

  /** Sequences end when their members are answered; with an error what waits is answered with it. */
  close(error: ServeError | undefined): void {
    this.#closed = true;
    for (const sequence of this.#sequences.values()) {
      if (error !== undefined) this.#failWaiting(sequence, error);
      if (this.#sequences.get(sequence.id) === sequence) this.#settleIdle(sequence);
    }
  }

  /** Brings the next member into its worker's queue. */
  #advance(sequence: Sequence): void {
    for (let job = sequence.waiting[0]; job !== undefined; job = sequence.waiting[0]) {
      if (job.state.at === 'queue') {
        if (job.request.sequence?.start === true && sequence.handed) this.#restart(sequence, 'restart');
        this.queue.push(job, sequence);
        this.#options.changed();
        return;
      }
      sequence.waiting.shift();
      if (isEnd(job)) return this.#over(sequence, 'end');
    }
    sequence.idleSince = monotonicNow();
    this.#settleIdle(sequence);
  }

  #settleIdle(sequence: Sequence): void {
    if (sequence.active !== undefined || sequence.live > 0) return;
    // A first member whose client has left before it went anywhere leaves nothing behind.
    if (this.#closed || !sequence.handed) this.#finish(sequence, 'stop');
    else this.#arm(sequence);
  }

  /** What waits behind an end mark is a sequence of its own, in the same place. */
  #over(sequence: Sequence, reason: SequenceEndReason): void {
    if (sequence.live === 0) return this.#finish(sequence, reason);
    this.#restart(sequence, reason);
    this.#advance(sequence);
  }

  #restart(sequence: Sequence, reason: SequenceEndReason): void {
    if (sequence.handed) sequence.slot?.endSequence(sequence.number, reason);
    sequence.number = ++lastNumber;
    sequence.handed = false;
    sequence.begun = false;
    sequence.startedAt = monotonicNow();
    sequence.marked = sequence.waiting[0]?.request.sequence?.start === true;
  }

  #arm(sequence: Sequence): void {
    if (sequence.timer !== undefined) clearTimeout(sequence.timer);
    sequence.timer = undefined;
    const { settings } = this.#options;
    const next = expiry(sequence, settings, monotonicNow());
    if (next === undefined) return;
    if (next.kind === 'in') {
      sequence.timer = setTimeout(() => this.#arm(sequence), Math.min(Math.ceil(next.ms), LONGEST_TIMER));
      return;
    }
    if (next.by === 'timeout') this.#failMembers(sequence, 'timeout');
    else this.#finish(sequence, 'idle');
  }

  /** Answers what waits; the sequence ends now, or when its worker lets go of the active member. */
  #failMembers(sequence: Sequence, by: 'timeout' | 'lost'): void {
    sequence.ending = by;
    clearTimeout(sequence.timer);
    this.#failWaiting(sequence, ended(this.#options.settings, sequence.id, by));
    if (sequence.active === undefined) this.#finish(sequence, by);
  }

  #failWaiting(sequence: Sequence, error: ServeError): void {
    const jobs = sequence.waiting.splice(0);
    const [first] = jobs;
    if (first !== undefined) this.queue.remove(first, sequence);
    this.#waiting -= sequence.live;
    sequence.live = 0;
    for (const job of jobs) if (job.state.at === 'queue') this.#options.fail(job, error);
    if (sequence.ending === undefined) this.#advanceIdle(sequence);
  }

  #advanceIdle(sequence: Sequence): void {
    sequence.idleSince = monotonicNow();
    this.#settleIdle(sequence);
  }

  #finish(sequence: Sequence, reason: SequenceEndReason | 'lost'): void {
    clearTimeout(sequence.timer);
    this.#sequences.delete(sequence.id);
    if (sequence.marked && (reason === 'idle' || reason === 'timeout' || reason === 'lost')) this.#ended.add(sequence.id, reason);
    const { slot } = sequence;
    // A worker that is lost has nothing left to end.
    if (slot !== undefined && reason !== 'lost') {
      this.queue.freed(slot);
      if (sequence.handed) slot.endSequence(sequence.number, reason);
      if (this.#retiring.has(slot) && !this.retire(slot)) slot.sequencesEnded();
    }
    this.#options.changed();
  }
}

function isEnd(job: Job): boolean {
  return job.request.sequence?.end === true;
}
