import type { Batcher } from '../batching/batcher.js';
import type { Job, Sequence, Slot } from '../batching/job.js';
import { batchRan } from '../domain/events.js';
import { ServeError } from '../domain/errors.js';
import { monotonicNow, type SequenceMark, type StageTimes } from '../domain/request.js';
import type { FromWorker, LoadSpec, ToWorker, WireError, WireResult, WireSequence } from '../ipc/messages.js';
import { ReplyStream } from './reply-stream.js';

/** How much of a stream may wait for its client, bytes; the worker holds back above it. */
const STREAM_WINDOW = 1024 * 1024;

interface OpenStream {
  readonly stream: ReplyStream;
  readonly status: number;
  /** The object that the reply carries; complete when the stream has ended. */
  readonly stages: StageTimes;
  unacknowledged: number;
  bytes: number;
  /** The client did not wait for the end. */
  left: boolean;
}

export type JobMessage = Extract<
  FromWorker,
  { type: 'run' | 'results' | 'stream-start' | 'stream-chunk' | 'stream-end' | 'recalled' }
>;

export interface HeldJobsOptions {
  readonly batcher: Batcher;
  readonly slot: Slot;
  readonly spec: Pick<LoadSpec, 'name' | 'version'>;
  readonly send: (message: ToWorker, blobs?: readonly Uint8Array[]) => void;
  /** Whether what ran when the process died may run again. */
  readonly rerun: () => boolean;
}

/** The items that one worker holds, from the frame that hands them over to the frames that answer them. */
export class HeldJobs {
  /** As the batcher counts them: the cancelled ones too, until the worker lets go. */
  readonly jobs = new Set<Job>();
  /** Monotonic nanoseconds of the last sign of progress. */
  progressAt = 0;
  readonly #options: HeldJobsOptions;
  readonly #byId = new Map<number, Job>();
  readonly #streams = new Map<number, OpenStream>();
  #nextBatch = 1;

  constructor(options: HeldJobsOptions) {
    this.#options = options;
  }

  get empty(): boolean {
    return this.#byId.size === 0;
  }

  /** Everything that runs is a stream that its client does not take. */
  get waitsForClients(): boolean {
    const running = this.#running();
    return running.length > 0 && running.every((job) => (this.#streams.get(job.id)?.unacknowledged ?? 0) >= STREAM_WINDOW);
  }

  hand(jobs: readonly Job[]): void {
    const bodies: Buffer[] = [];
    const items = jobs.map((job) => {
      const { id, kind, rawHeaders, urlPath, query, queryIsInput, body, parts, envelope, receivedAt } = job.request;
      this.#byId.set(job.id, job);
      bodies.push(body);
      const { length } = body;
      const sequence = job.sequence && wireSequence(job.sequence, job.request.sequence);
      return {
        job: job.id,
        id,
        kind,
        rawHeaders,
        urlPath,
        query,
        queryIsInput,
        length,
        parts,
        envelope,
        receivedAt,
        deadline: job.deadline,
        sequence,
      };
    });
    this.#options.send({ type: 'batch', batch: this.#nextBatch++, items }, bodies);
  }

  cancel(job: Job): void {
    this.#options.send({ type: 'cancel', jobs: [job.id] });
  }

  /** @returns true when the worker has room for more now */
  receive(message: JobMessage, blob: Buffer): boolean {
    const { batcher, slot, spec } = this.#options;
    this.progressAt = monotonicNow();
    switch (message.type) {
      case 'run':
        for (const id of message.jobs) {
          const job = this.#byId.get(id);
          if (job?.state.at === 'worker') job.state.running = true;
        }
        if (batchRan.active) {
          const { jobs, rows } = message;
          batchRan.publish({ model: spec.name, version: spec.version, workerId: slot.workerId, rows, items: jobs.length });
        }
        return false;
      case 'results': {
        let at = 0;
        for (const result of message.items)
          this.#result(result, result.ok ? blob.subarray(at, (at += result.length)) : undefined);
        return true;
      }
      case 'stream-start':
        this.#openStream(message);
        return false;
      case 'stream-chunk': {
        const open = this.#streams.get(message.job);
        if (open === undefined) return false;
        open.unacknowledged += blob.length;
        open.bytes += blob.length;
        open.stream.push(blob);
        return false;
      }
      case 'stream-end':
        this.#endStream(message);
        return true;
      case 'recalled': {
        const jobs = message.jobs.map((id) => this.#byId.get(id)).filter((job) => job !== undefined);
        for (const job of jobs) this.#release(job);
        batcher.putBack(jobs);
        return true;
      }
    }
  }

  /** Something runs: silence means that the run hangs, not a stage before it. */
  get running(): boolean {
    return this.#running().length > 0;
  }

  /** No progress for too long: what runs is answered with the error, the rest goes back to the queue. */
  blame(error: ServeError): void {
    this.#end(error);
  }

  /**
   * The process is gone: what ran is run again alone or answered with the error, the rest goes back to the queue.
   * @param killed the server ended it, so no item is to blame
   */
  lose(error: ServeError, killed: boolean): void {
    if (killed) {
      for (const job of this.#running()) this.#answer(job, error);
      this.#giveBack();
    } else this.#end(error);
    this.jobs.clear();
  }

  #end(error: ServeError): void {
    const running = this.#running();
    for (const job of running) {
      // Whose fault a death was shows when each runs alone. What a client has seen a part of cannot begin again.
      const again =
        error.code === 'WORKER_DIED' &&
        !job.suspect &&
        !this.#streams.has(job.id) &&
        job.sequence === undefined &&
        this.#options.rerun();
      if (again) job.suspect = true;
      else this.#answer(job, error);
    }
    if (running.length === 0) {
      // A stage before the run did it, and nobody knows whose. Each is tried again alone; the second time it is clear.
      const [only] = this.#byId.values();
      if (this.#byId.size === 1 && only !== undefined && (only.suspect || error.code === 'RESPONSE_TIMEOUT'))
        this.#answer(only, error);
      for (const job of this.#byId.values()) {
        if (job.sequence === undefined) job.suspect = true;
        else this.#answer(job, error);
      }
    }
    this.#giveBack();
  }

  #running(): Job[] {
    return [...this.#byId.values()].filter((job) => job.state.at === 'worker' && job.state.running);
  }

  #giveBack(): void {
    const jobs = [...this.#byId.values()];
    this.#byId.clear();
    this.#options.batcher.putBack(jobs);
  }

  #release(job: Job): void {
    this.#byId.delete(job.id);
    this.jobs.delete(job);
  }

  #answer(job: Job, error: ServeError): void {
    const open = this.#streams.get(job.id);
    this.#streams.delete(job.id);
    this.#release(job);
    this.#options.batcher.released(job, false);
    this.#options.batcher.fail(job, error);
    open?.stream.fail(error);
  }

  #result(result: WireResult, body: Buffer | undefined): void {
    const { batcher, slot, spec } = this.#options;
    const job = this.#byId.get(result.job);
    if (job === undefined) return;
    this.#release(job);
    batcher.released(job, result.ok && result.status < 400);
    if (!result.ok) {
      batcher.fail(job, toError(result.error), result.stages, result.batchSize);
      return;
    }
    const { status, headers, stages, batchSize, postprocessedAt } = result;
    stages.encode += Math.max(0, monotonicNow() - postprocessedAt);
    const modelVersion = spec.version;
    batcher.succeed(job, { status, headers, body: body!, stages, batchSize, workerId: slot.workerId, modelVersion });
  }

  #openStream(message: Extract<JobMessage, { type: 'stream-start' }>): void {
    const { slot, spec } = this.#options;
    const job = this.#byId.get(message.job);
    if (job === undefined) return;
    const stream = new ReplyStream(
      (bytes) => this.#taken(job.id, bytes),
      () => {
        open.left = true;
        this.cancel(job);
      },
    );
    const { status, headers, stages, batchSize } = message;
    const open: OpenStream = { stream, status, stages, unacknowledged: 0, bytes: 0, left: false };
    this.#streams.set(job.id, open);
    // From here on the stream itself tells when its client leaves.
    job.unwatch?.();
    job.resolve({ status, headers, body: stream, stages, batchSize, workerId: slot.workerId, modelVersion: spec.version });
  }

  #endStream(message: Extract<JobMessage, { type: 'stream-end' }>): void {
    const { batcher, slot } = this.#options;
    const open = this.#streams.get(message.job);
    const job = this.#byId.get(message.job);
    this.#streams.delete(message.job);
    if (job === undefined) return;
    this.#release(job);
    batcher.released(job, message.error === undefined);
    if (open === undefined) return;
    const { stages } = message;
    Object.assign(open.stages, stages);
    if (message.error === undefined && open.left) {
      batcher.fail(job, new ServeError('CANCELLED', 'The client left before its stream had ended.'), stages);
    } else if (message.error === undefined) {
      batcher.streamed(job, { stages, status: open.status, bytes: open.bytes, workerId: slot.workerId });
      open.stream.end();
    } else {
      const error = toError(message.error);
      batcher.fail(job, error, stages);
      open.stream.fail(error);
    }
  }

  #taken(job: number, bytes: number): void {
    const open = this.#streams.get(job);
    if (open !== undefined) open.unacknowledged -= bytes;
    this.#options.send({ type: 'taken', job, bytes });
  }
}

function wireSequence({ number, id }: Sequence, mark: SequenceMark | undefined): WireSequence {
  return { number, id, start: mark?.start === true, end: mark?.end === true };
}

export function toError(wire: WireError): ServeError {
  const { code, message, reason, status } = wire;
  return new ServeError(code, message, { reason, ...(status === undefined ? {} : { status }) });
}
