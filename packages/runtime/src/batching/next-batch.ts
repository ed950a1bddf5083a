import { monotonicNow } from '../domain/request.js';
import type { Job, Slot } from './job.js';
import { decide } from './policy.js';
import type { JobQueue } from './queue.js';
import { type BatchRules, type NextBatch, policyInput, type SequenceQueue } from './sequence-queue.js';

const idle: NextBatch = { kind: 'idle' };

/** Takes out of the queues what goes to a worker next. @param members of sequences; undefined: the model has none */
export function nextBatch(
  queue: JobQueue,
  members: SequenceQueue | undefined,
  workers: readonly Slot[],
  rules: BatchRules,
): NextBatch {
  const oldest = queue.peek();
  if (oldest === undefined && members === undefined) return idle;
  const slots = workers.filter((slot) => slot.accepting && !holdsSuspect(slot));
  const now = monotonicNow();
  if (oldest !== undefined && standsAlone(oldest)) {
    const slot = oldest.suspect ? slots.find((it) => it.jobs.size === 0) : slots.toSorted((a, b) => a.jobs.size - b.jobs.size)[0];
    if (slot !== undefined) {
      queue.shift();
      return { kind: 'dispatch', slot, jobs: [oldest], release: oldest.suspect ? 'rerun' : 'idle' };
    }
    return members === undefined ? idle : members.next(slots, now, rules);
  }
  if (members !== undefined) return members.next(slots, now, rules);
  if (oldest === undefined) return idle;
  const loads = slots.map((slot) => ({ items: slot.jobs.size }));
  const decision = decide(policyInput(rules, queue.length, (now - oldest.enqueuedAt) / 1e6, loads));
  if (decision.kind !== 'dispatch') return decision;
  const jobs: Job[] = [];
  // More wait than every worker takes next: whoever came last has the most time left.
  const newest = rules.newestFirst && queue.length > rules.batchSize * slots.length;
  while (jobs.length < decision.count) {
    const job = newest ? queue.peekLast() : queue.peek();
    if (job === undefined || standsAlone(job)) break;
    jobs.push((newest ? queue.pop() : queue.shift())!);
  }
  return { kind: 'dispatch', slot: slots[decision.slot]!, jobs, release: decision.release };
}

/** A describe request asks the handler about itself and shares no batch; a suspect has a worker to itself. */
function standsAlone(job: Job): boolean {
  return job.suspect || job.request.kind === 'describe';
}

function holdsSuspect(slot: Slot): boolean {
  if (slot.jobs.size !== 1) return false;
  for (const job of slot.jobs) return job.suspect;
  return false;
}
