import { type BatchContext, collate, type NamedTensors, Tensor, type TensorSignature } from '@onnxserve/handler-kit';
import { monotonicNow } from '../src/domain/request.js';
import type { Connection } from '../src/ipc/connection.js';
import type { FromWorker, WireItem, WireResult } from '../src/ipc/messages.js';
import type { Session } from '../src/worker/engines/session.js';
import { Item } from '../src/worker/item.js';

const silent = () => undefined;
export const context = {
  model: { name: 'm', version: '1.0' },
  session: undefined,
  sessions: {},
  state: undefined,
  log: { debug: silent, info: silent, warn: silent, error: silent },
  device: { type: 'cpu', id: undefined },
  worker: { id: 'w', threads: 1 },
} as unknown as BatchContext<unknown>;

export function wire(job: number, length = 0, changes: Partial<WireItem> = {}): WireItem {
  const headers = ['content-type', 'application/json'];
  return {
    job,
    id: `r${job}`,
    kind: 'predict',
    rawHeaders: headers,
    urlPath: '',
    query: [],
    length,
    receivedAt: monotonicNow(),
    ...changes,
  };
}

export function item(job: number, features?: unknown): Item {
  const made = new Item(wire(job), 1, Buffer.alloc(0), context, 1000);
  made.features = features;
  return made;
}

/** One FP32 row per number. */
export const rows = (...values: number[]): NamedTensors => ({
  x: new Tensor('FP32', [values.length, 1], Float32Array.from(values)),
});
export const valuesOf = (tensors: NamedTensors): number[] => [...(Object.values(tensors)[0]!.data as Float32Array)];

/** Gives each row back plus 100; refuses negative values. */
export class FakeSession implements Session {
  readonly inputs: readonly TensorSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly providers = ['cpu'];
  /** What each run got. */
  readonly runs: number[][] = [];
  /** Waited for before a run ends. */
  gate: Promise<void> | undefined;

  constructor(axis: number | string = 'n') {
    this.inputs = [{ name: 'x', datatype: 'FP32', shape: [axis, 1] }];
    this.outputs = [{ name: 'y', datatype: 'FP32', shape: [axis, 1] }];
  }

  async run(feeds: NamedTensors): Promise<NamedTensors> {
    const given = valuesOf(feeds);
    this.runs.push(given);
    await this.gate;
    if (given.some((value) => value < 0)) throw new Error('index -1 out of data bounds');
    return {
      y: new Tensor(
        'FP32',
        feeds['x']!.shape,
        Float32Array.from(given, (value) => value + 100),
      ),
    };
  }

  async runRows(pieces: readonly NamedTensors[]): Promise<NamedTensors> {
    return await this.run(collate(pieces));
  }
}

/** Keeps what a worker says. */
export class FakeConnection {
  readonly said: Array<{ message: FromWorker; blobs: Buffer }> = [];
  readonly #waiting: Array<{ enough: () => boolean; resolve: () => void }> = [];

  send(message: FromWorker, blobs: readonly Uint8Array[] = []): void {
    this.said.push({ message, blobs: Buffer.concat(blobs) });
    for (const it of this.#waiting) if (it.enough()) it.resolve();
  }
  flush(): void {}

  get as(): Connection {
    return this as unknown as Connection;
  }
  /** Bodies, or codes of errors, by job. */
  get answers(): Record<number, string> {
    const all: Record<number, string> = {};
    for (const { message, blobs } of this.said) {
      if (message.type !== 'results') continue;
      let at = 0;
      for (const result of message.items as readonly WireResult[]) {
        all[result.job] = result.ok ? blobs.toString('utf8', at, (at += result.length)) : result.error.code;
      }
    }
    return all;
  }
  types(type: FromWorker['type']): FromWorker[] {
    return this.said.map(({ message }) => message).filter((message) => message.type === type);
  }
  async until(enough: () => boolean): Promise<void> {
    if (enough()) return;
    await new Promise<void>((resolve) => this.#waiting.push({ enough, resolve }));
  }
  async answered(count: number): Promise<Record<number, string>> {
    await this.until(() => Object.keys(this.answers).length >= count);
    return this.answers;
  }
}
