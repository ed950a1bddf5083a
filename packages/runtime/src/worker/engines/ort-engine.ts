import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { NamedTensors } from '@onnxserve/handler-kit';
import { OrtSession } from './ort-session.js';
import type { Engine, Session, SessionRequest } from './session.js';
import { type OpenedSession, pack, type ThreadReply, type ThreadRequest, unpack } from './thread-messages.js';

/** A model file up to this size may also be held in the main thread, where a run costs no hop between threads. */
const INLINE_MODEL_BYTES = 1024 * 1024;
/** A run longer than this has no place in the main thread. */
const INLINE_RUN_MS = 1;

type Pending = { resolve: (reply: Exclude<ThreadReply, { type: 'failed' }>) => void; reject: (error: Error) => void };
/** `Omit` of each member of a union, not of what they share. */
type Without<T, K extends keyof T> = T extends unknown ? Omit<T, K> : never;

/**
 * `onnxruntime-node` in a thread of its own, so that handlers and frames never wait for a run. Very small models run in the
 * main thread as long as their runs stay under a millisecond; the first slower run sends them to the thread for good.
 */
export class OrtEngine implements Engine {
  readonly #thread: Worker;
  readonly #pending = new Map<number, Pending>();
  #nextCall = 1;
  #nextSession = 1;

  constructor(entry: URL = new URL('./ort-thread.js', import.meta.url)) {
    this.#thread = new Worker(entry, { stdout: false, stderr: false });
    this.#thread.on('message', (reply: ThreadReply) => this.#settle(reply));
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
        ? await OrtSession.open(request)
        : undefined;
    return new ThreadedSession(reply.session, inline, async (feeds, outputs) => {
      const { packed, transfer } = pack(feeds, false);
      const ran = await this.#call({ type: 'run', session, feeds: packed, outputs }, transfer);
      if (ran.type !== 'ran') throw new Error('the inference thread answered out of turn');
      return unpack(ran.outputs);
    });
  }

  #call(
    request: Without<ThreadRequest, 'call'>,
    transfer: ArrayBuffer[] = [],
  ): Promise<Exclude<ThreadReply, { type: 'failed' }>> {
    const call = this.#nextCall++;
    return new Promise((resolve, reject) => {
      this.#pending.set(call, { resolve, reject });
      this.#thread.postMessage({ ...request, call } satisfies ThreadRequest, transfer);
    });
  }

  #settle(reply: ThreadReply): void {
    const pending = this.#pending.get(reply.call);
    this.#pending.delete(reply.call);
    if (reply.type === 'failed') {
      const error = new Error(reply.message);
      error.name = reply.name;
      pending?.reject(error);
    } else pending?.resolve(reply);
  }
}

type Run = (feeds: NamedTensors, outputs?: readonly string[]) => Promise<NamedTensors>;

class ThreadedSession implements Session {
  readonly inputs;
  readonly outputs;
  readonly providers;
  readonly #threaded: Run;
  #inline: OrtSession | undefined;
  /** The first run pays for allocations and says nothing of the later ones. */
  #warm = false;

  constructor(opened: OpenedSession, inline: OrtSession | undefined, threaded: Run) {
    this.inputs = opened.inputs;
    this.outputs = opened.outputs;
    this.providers = opened.providers;
    this.#inline = inline;
    this.#threaded = threaded;
  }

  get inMainThread(): boolean {
    return this.#warm && this.#inline !== undefined;
  }

  async run(feeds: NamedTensors, outputs?: readonly string[]): Promise<NamedTensors> {
    if (!this.#warm) {
      // How long a run takes is not known yet, so the first one must not hold the main thread.
      const started = performance.now();
      const result = await this.#threaded(feeds, outputs);
      this.#warm = true;
      if (performance.now() - started > 20 * INLINE_RUN_MS) this.#leaveMainThread();
      return result;
    }
    const inline = this.#inline;
    if (inline === undefined) return await this.#threaded(feeds, outputs);
    const started = performance.now();
    const result = await inline.run(feeds, outputs);
    if (performance.now() - started > 5 * INLINE_RUN_MS) this.#leaveMainThread();
    return result;
  }

  #leaveMainThread(): void {
    const inline = this.#inline;
    this.#inline = undefined;
    void inline?.release().catch(() => undefined);
  }
}
