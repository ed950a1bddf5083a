import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { collate, type NamedTensors } from '@onnxserve/handler-kit';
import { monotonicNow } from '../../domain/request.js';
import { FeedMemory } from './feed-memory.js';
import { OrtSession } from './ort-session.js';
import type { Engine, RunTiming, Session, SessionRequest } from './session.js';
import { type OpenedSession, type ThreadReply, type ThreadRequest, unpack } from './thread-messages.js';

/** A model file up to this size may also be held in the main thread, where a run costs no hop between threads. */
const INLINE_MODEL_BYTES = 1024 * 1024;
/** Runs of a model in the main thread should stay below this. */
const INLINE_RUN_MS = 1;
/** A run of this length sends a model to the inference thread for good. */
const LONGEST_INLINE_RUN_MS = 50;

type Answer = Extract<ThreadReply, { type: 'opened' | 'ran' }>;
type Pending = { resolve: (reply: Answer) => void; reject: (error: Error) => void };
/** `Omit` of each member of a union, not of what they share. */
type Without<T, K extends keyof T> = T extends unknown ? Omit<T, K> : never;

/**
 * `onnxruntime-node` in a thread of its own, so that handlers and frames never wait for a run. Very small models run in the
 * main thread as long as their runs stay under a millisecond; the ones that turn out slower move to the thread for good.
 */
export class OrtEngine implements Engine {
  readonly #thread: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #memory = new FeedMemory();
  /** Resolves when the thread runs, which from then on ends the process when its parent is gone. */
  readonly started: Promise<void>;
  #nextCall = 1;
  #nextSession = 1;

  constructor(entry: URL = new URL('./ort-thread.js', import.meta.url)) {
    this.#thread = new Worker(entry, { stdout: false, stderr: false, workerData: process.ppid });
    this.started = new Promise((resolve) => {
      this.#thread.on('message', (reply: ThreadReply) => (reply.type === 'up' ? resolve() : this.#settle(reply)));
    });
    this.#thread.on('error', (error) => {
      for (const { reject } of this.#pending.values()) reject(error);
      this.#pending.clear();
      throw error;
    });
    this.#thread.unref();
  }

  async open(request: SessionRequest): Promise<Session> {
    const session = this.#nextSession++;
    const reply = await this.#call({ type: 'open', session, request });
    if (reply.type !== 'opened') throw new Error('the inference thread answered out of turn');
    const inline =
      statSync(request.file).size <= INLINE_MODEL_BYTES && request.device.type === 'cpu'
        ? await OrtSession.open(inMainThread(request))
        : undefined;
    return new ThreadedSession(reply.session, inline, async (pieces, outputs) => {
      const { packed, transfer } = this.#memory.gather(pieces);
      const ran = await this.#call({ type: 'run', session, feeds: packed, outputs }, transfer);
      if (ran.type !== 'ran') throw new Error('the inference thread answered out of turn');
      this.#memory.giveBack(ran.feeds);
      const { startedAt, endedAt, waited } = ran;
      return { outputs: unpack(ran.outputs), startedAt, endedAt, waited };
    });
  }

  #call(request: Without<ThreadRequest, 'call'>, transfer: ArrayBuffer[] = []): Promise<Answer> {
    const call = this.#nextCall++;
    return new Promise((resolve, reject) => {
      this.#pending.set(call, { resolve, reject });
      this.#thread.postMessage({ ...request, call } satisfies ThreadRequest, transfer);
    });
  }

  #settle(reply: Exclude<ThreadReply, { type: 'up' }>): void {
    const pending = this.#pending.get(reply.call);
    this.#pending.delete(reply.call);
    if (reply.type === 'failed') {
      const error = new Error(reply.message);
      error.name = reply.name;
      pending?.reject(error);
    } else pending?.resolve(reply);
  }
}

/** A run that is over in less than a millisecond has no use for threads of its own. */
function inMainThread(request: SessionRequest): SessionRequest {
  return { ...request, threads: 1, onnx: { ...request.onnx, enableProfiling: false } };
}

/** What the inference thread answers: the outputs, and when the run itself began and ended. */
type ThreadedRun = (
  pieces: readonly NamedTensors[],
  outputs?: readonly string[],
) => Promise<RunTiming & { outputs: NamedTensors }>;

class ThreadedSession implements Session {
  readonly inputs;
  readonly outputs;
  readonly providers;
  readonly #threaded: ThreadedRun;
  #inline: OrtSession | undefined;
  /** Whether the main thread may run it: unknown until a run in the thread has told how long one takes. */
  #proven = false;
  /** Moving average of the runs in the main thread, milliseconds. */
  #average = 0;

  constructor(opened: OpenedSession, inline: OrtSession | undefined, threaded: ThreadedRun) {
    this.inputs = opened.inputs;
    this.outputs = opened.outputs;
    this.providers = opened.providers;
    this.#inline = inline;
    this.#threaded = threaded;
  }

  get inMainThread(): boolean {
    return this.#proven && this.#inline !== undefined;
  }

  run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors> {
    return this.runRows([feeds], outputs);
  }

  async runRows(pieces: readonly NamedTensors[], outputs?: readonly string[], timing?: RunTiming): Promise<NamedTensors> {
    const inline = this.#proven ? this.#inline : undefined;
    if (inline === undefined) {
      const { outputs: results, ...times } = await this.#threaded(pieces, outputs);
      if (timing !== undefined) Object.assign(timing, times);
      const ms = (times.endedAt - times.startedAt - times.waited) / 1e6;
      if (this.#inline !== undefined) {
        if (ms > LONGEST_INLINE_RUN_MS) this.#leaveMainThread();
        else if (ms < INLINE_RUN_MS) this.#proven = true;
      }
      return results;
    }
    const startedAt = monotonicNow();
    const results = await inline.run(collate(pieces), outputs);
    const endedAt = monotonicNow();
    if (timing !== undefined) Object.assign(timing, { startedAt, endedAt });
    const ms = (endedAt - startedAt) / 1e6;
    // One slow run may be the machine's doing; a few in a row, or a very slow one, are the model's.
    this.#average += (ms - this.#average) / 8;
    if (ms > LONGEST_INLINE_RUN_MS || this.#average > 2 * INLINE_RUN_MS) this.#leaveMainThread();
    return results;
  }

  /** Another run may be under way in it, so it is let go of and not released: it is freed when nothing uses it any more. */
  #leaveMainThread(): void {
    this.#inline = undefined;
  }
}
